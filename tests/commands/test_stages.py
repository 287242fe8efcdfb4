"""Runs and their stages, as a user types them."""

import asyncio
import json
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import indent

from tests.commands.in_process import do, sets, toolbank
from toolbank.evaluation import TEST_PARTS

PAGE = (Path(__file__).resolve().parents[2] / "docs/run-folder.md").read_text()
README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


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


def test_a_run_leaves_what_was_promised(finished):
    run = finished / "runs" / "mine"
    for name in ["comparisons.json", "hits/bm25.jsonl", "judge.json", "report.html"]:
        assert (run / name).exists(), name
    records = json.loads((run / "metrics.json").read_text())
    assert set(records[0]) == {
        *("retriever", "set", "metric", "k", "value", "low", "high", "n")
    }
    sets = {record["set"] for record in records}
    assert {"test"} < sets <= {"test", *TEST_PARTS}
    counts = json.loads((run / "bank" / "bank.json").read_text())["counts"]
    assert counts["accepted"] == 30


def test_a_second_run_does_nothing_and_says_so(finished):
    # The report names the folder, which is another one.
    assert rerun(finished, "run").returncode == 0
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
    done = rerun(finished, "run")
    assert done.returncode == 0, done.stderr
    assert "done already" in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in before}


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
    kept = (finished / "runs" / "mine" / "recipe.yaml").read_text()
    assert "queries: 45" in kept
    assert rerun(finished, "run", "generate.queries=45").stdout.count("R@5") >= 1


def test_one_stage_alone_changes_its_part_of_the_recipe_and_keeps_its_origin(finished):
    before = (finished / "runs" / "mine" / "recipe.yaml").read_text()
    do(finished, "judge", "runs/mine", "--set", "judge.pairs=7")
    after = (finished / "runs" / "mine" / "recipe.yaml").read_text()
    assert after.splitlines()[0] == before.splitlines()[0]
    assert "pairs: 7" in after
    do(finished, "run", "mine.yaml")


def test_a_folder_with_a_recipes_name_is_not_taken_for_a_run(tmp_path):
    (tmp_path / "quickstart").mkdir()
    done = toolbank("plan", "quickstart", cwd=tmp_path)
    assert "runs/quickstart" in done.stdout


def test_the_python_of_the_pages_runs_as_it_stands(finished):
    pages = README, PAGE.partition("## From Python")[2]
    code = "".join(page.partition("```python")[2].partition("```")[0] for page in pages)
    code = code.replace("runs/quickstart", "runs/mine").replace(
        "queries=500", "queries=31"
    )
    code = code.replace('"quickstart"', '"mine.yaml"')
    # In a notebook a loop is running.
    cell = f"async def cell():\n{indent(code, '    ')}"
    said = StringIO()
    with chdir(finished), redirect_stdout(said), redirect_stderr(StringIO()):
        exec(cell, names := {})
        asyncio.run(names["cell"]())
    assert said.getvalue().count("\n") == 5


def test_plan_and_preview_keep_nothing(recipe):
    assert "30 queries" in do(recipe, "plan", "mine.yaml").stdout
    preview = do(recipe, "preview", "mine.yaml", "--count", "2")
    assert preview.stdout.count("--- write: reply") == 2
    assert not (recipe / "runs").exists()
