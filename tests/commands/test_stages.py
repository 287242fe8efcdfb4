"""Runs and their stages, as a user types them."""

import asyncio
import re
from contextlib import chdir
from pathlib import Path
from textwrap import indent

from tests.commands.in_process import do, sets, toolbank

PAGE = (Path(__file__).resolve().parents[2] / "docs/run-folder.md").read_text()


def rerun(folder, command, *settings):
    return toolbank(command, "mine.yaml", *sets(*settings), cwd=folder)


def test_every_file_of_a_run_is_on_its_page(finished):
    table = PAGE.partition("\n\n    ")[2].partition("\n\n")[0]
    named = {word.strip(",") for line in table.splitlines() for word in line.split()}
    [run] = (finished / "runs").iterdir()
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix()
        if path.is_file() and not name.startswith("."):
            own = name.replace(path.stem, "<retriever>")
            folder = re.sub(r"^models/.*", "models/<retriever>/", name)
            kept = re.sub("^(prompts|crawlers)/.*", r"\1/", name)
            assert {name, own, folder, kept} & named, name


def test_figures_of_an_earlier_bank_are_not_shown_nor_used(finished):
    assert "R@5" in rerun(finished, "run").stdout
    done = rerun(finished, "generate", "generate.queries=45")
    assert "R@5" not in done.stdout
    assert "retrievers/bm25" in done.stdout
    stale = do(finished, "evaluate", "runs/mine", code=2)
    assert "not fitted on this bank" in stale.stderr
    for command in ("judge", "train", "report"):
        refused = rerun(finished, command, "generate.queries=60")
        assert refused.returncode == 2
        assert "not done under this recipe" in refused.stderr
    assert "queries: 45" in (finished / "runs/mine/recipe.yaml").read_text()
    assert "R@5" in rerun(finished, "run", "generate.queries=45").stdout


def test_one_stage_alone_changes_its_part_of_the_recipe_and_keeps_its_origin(finished):
    recipe = finished / "runs/mine/recipe.yaml"
    first = recipe.read_text().splitlines()[0]
    do(finished, "judge", "runs/mine", "--set", "judge.pairs=7")
    assert recipe.read_text().splitlines()[0] == first
    assert "pairs: 7" in recipe.read_text()
    do(finished, "run", "mine.yaml")


def test_a_folder_with_a_recipes_name_is_not_taken_for_a_run(tmp_path):
    (tmp_path / "quickstart").mkdir()
    assert "runs/quickstart" in do(tmp_path, "plan", "quickstart").stdout


def test_the_python_of_the_pages_runs_as_it_stands(finished):
    section = PAGE.partition("## From Python")[2]
    code = section.partition("```python")[2].partition("```")[0]
    for old, new in (("runs/quickstart", "runs/mine"), ("queries=500", "queries=31")):
        code = code.replace(old, new)
    code = code.replace('"quickstart"', '"mine.yaml"')
    # In a notebook a loop is running.
    cell = f"async def cell():\n{indent(code, '    ')}"
    with chdir(finished):
        exec(cell, names := {})
        asyncio.run(names["cell"]())
    assert "queries: 31" in (finished / "runs/mine/recipe.yaml").read_text()
