"""The commands as a user types them: what they print, and what they say of bad input."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest

from tests.world import write_recipe
from toolbank.commands.cli import main
from toolbank.evaluation.config import TEST_PARTS
from toolbank.system.version import __version__

BY_RULES = {"engine": "rules", "queries": 30}


def toolbank(*arguments, cwd, **environment):
    """The command, called within this process: it starts in no time."""
    out, err = StringIO(), StringIO()
    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.dict(os.environ, {"COLUMNS": "80", **environment}),
        mock.patch.object(sys, "argv", ["toolbank", *map(str, arguments)]),
    ):
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            # An error ends the process, which hears no Ctrl-C from then on.
            signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def rerun(folder, command, *settings):
    sets = [part for setting in settings for part in ("--set", setting)]
    return toolbank(command, "mine.yaml", *sets, cwd=folder)


@pytest.fixture
def recipe(tmp_path):
    write_recipe(tmp_path, **BY_RULES)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    write_recipe(folder, **BY_RULES)
    command = [Path(sys.executable).with_name("toolbank"), "run", "mine.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_file_of_a_run_is_on_its_page(finished):
    page = (Path(__file__).resolve().parents[2] / "docs/run-folder.md").read_text()
    table = page.partition("\n\n    ")[2].partition("\n\n")[0]
    named = {word.strip(",") for line in table.splitlines() for word in line.split()}
    [run] = (finished / "runs").iterdir()
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix()
        if path.is_file() and not name.startswith("."):
            own = name.replace(path.stem, "<retriever>")
            folder = re.sub(r"^models/.*", "models/<retriever>/", name)
            assert {name, own, folder} & named, name


def command_names(cwd):
    helped = toolbank("--help", cwd=cwd).stdout
    names = [
        line.split()[0]
        for line in helped.partition("Commands:")[2].splitlines()
        if line.startswith("  ") and not line.startswith("   ") and line.strip()
    ]
    names.remove("Example:")
    return names


def test_every_command_shows_an_example(tmp_path):
    names = command_names(tmp_path)
    assert len(names) == 15
    for name in names:
        assert (
            f"Example: toolbank {name}" in toolbank(name, "--help", cwd=tmp_path).stdout
        )


def test_help_is_read_without_knowing_python_and_cuts_no_sentence(tmp_path):
    pages = [toolbank("-h", cwd=tmp_path).stdout]
    pages += [
        toolbank(name, "-h", cwd=tmp_path).stdout for name in command_names(tmp_path)
    ]
    for page in pages:
        assert "..." not in page.replace("[ARGS]...", "")
        told = page.partition("Example:")[0].replace(">=1", "")
        assert not re.search(r"[{}<>]|list\[", told), page
    run = toolbank("run", "--help", cwd=tmp_path).stdout
    assert "toolbank run [OPTIONS] RECIPE" in run
    assert "--out DIR" in run
    assert "[OPTIONS] RUN [QUERY]" in toolbank("search", "-h", cwd=tmp_path).stdout


def test_the_version_is_told(tmp_path):
    done = toolbank("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"toolbank {__version__}\n")


def test_the_recipes_are_listed_with_what_they_are(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text("# My own tools.\nname: mine\n")
    told = toolbank("recipes", cwd=tmp_path).stdout
    assert re.search("^quickstart  +NumPy from end to end", told, re.MULTILINE)
    assert re.search("^mine  +My own tools$", told, re.MULTILINE)
    names = [line.split()[0] for line in told.splitlines()]
    assert names == sorted(names)
    for name in set(names) - {"mine"}:
        assert f"{name}.yaml" in toolbank("run", "x", cwd=tmp_path).stderr


def test_help_does_not_import_what_is_heavy(tmp_path):
    script = (
        "import sys; sys.argv = ['toolbank', '--help']\n"
        "from toolbank.commands.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'polars', 'pyarrow', 'numpy', 'aiohttp'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert "HEAVY []" in done.stdout


def test_a_run_leaves_what_was_promised(finished):
    run = finished / "runs" / "mine"
    for name in (
        *("recipe.yaml", "bank/tools.parquet", "bank/queries.parquet"),
        *("bank/attempts.parquet", "bank/bank.json", "journal.sqlite", "models/bm25"),
        *("metrics.json", "comparisons.json", "hits/bm25.jsonl", "judge.json"),
        "report.html",
    ):
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
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
    done = toolbank("run", "mine.yaml", cwd=finished)
    assert "Everything was done already" in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_more_queries_go_on_from_those_that_are_there(finished, tmp_path):
    out = tmp_path / "out"
    toolbank("generate", finished / "mine.yaml", "--out", out, cwd=tmp_path)
    done = toolbank(
        *("generate", finished / "mine.yaml", "--out", out),
        *("--set", "generate.queries=40"),
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "40 queries" in done.stderr
    assert " 0 from the journal" not in done.stderr


def test_figures_of_an_earlier_bank_are_not_shown_nor_used(tmp_path):
    write_recipe(tmp_path, **BY_RULES)
    assert "R@5" in toolbank("run", "mine.yaml", cwd=tmp_path).stdout
    done = rerun(tmp_path, "generate", "generate.queries=45")
    assert "R@5" not in done.stdout
    assert "retrievers/bm25" in done.stdout
    stale = toolbank("evaluate", "runs/mine", cwd=tmp_path)
    assert stale.returncode == 2
    assert "not fitted on this bank" in stale.stderr
    for command in ("judge", "train", "report"):
        refused = rerun(tmp_path, command, "generate.queries=60")
        assert refused.returncode == 2
        assert "not done under this recipe" in refused.stderr
    kept = (tmp_path / "runs" / "mine" / "recipe.yaml").read_text()
    assert "queries: 45" in kept
    assert rerun(tmp_path, "run", "generate.queries=45").stdout.count("R@5") >= 1


def test_one_stage_alone_changes_its_part_of_the_recipe_and_keeps_its_origin(finished):
    before = (finished / "runs" / "mine" / "recipe.yaml").read_text()
    done = toolbank("judge", "runs/mine", "--set", "judge.pairs=7", cwd=finished)
    assert done.returncode == 0, done.stderr
    after = (finished / "runs" / "mine" / "recipe.yaml").read_text()
    assert after.splitlines()[0] == before.splitlines()[0]
    assert "pairs: 7" in after
    assert toolbank("run", "mine.yaml", cwd=finished).returncode == 0


def test_a_run_folder_that_was_moved_can_still_be_searched_and_evaluated(tmp_path):
    asked = '{"query": "middle value", "tools": ["statistics.median"]}\n'
    (tmp_path / "asked.jsonl").write_text(asked)
    with Path(write_recipe(tmp_path, **BY_RULES)).open("a") as file:
        file.write("evaluate: {on: [asked.jsonl]}\n")
    assert toolbank("run", "mine.yaml", cwd=tmp_path).returncode == 0
    (tmp_path / "runs" / "mine").rename(tmp_path / "moved")
    (tmp_path / "asked.jsonl").rename(tmp_path / "other.jsonl")
    assert toolbank("search", "moved", "median", cwd=tmp_path).returncode == 0
    done = toolbank("evaluate", "moved", "--on", "other.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lost = toolbank("run", "moved", cwd=tmp_path)
    assert lost.returncode == 2
    assert "asked.jsonl" in lost.stderr


def test_a_folder_with_a_recipes_name_is_not_taken_for_a_run(tmp_path):
    (tmp_path / "quickstart").mkdir()
    done = toolbank("plan", "quickstart", cwd=tmp_path)
    assert "runs/quickstart" in done.stdout


def test_the_python_of_the_pages_runs_as_it_stands(finished):
    page = Path(__file__).resolve().parents[2] / "docs" / "run-folder.md"
    section = page.read_text().partition("## From Python")[2]
    code = section.partition("```python")[2].partition("```")[0]
    code = code.replace("runs/quickstart", "runs/mine").replace(
        '"quickstart"', '"mine.yaml"'
    )
    code = code.replace("queries=500", "queries=31")
    script = f"import asyncio\nasync def cell():\n{indented(code)}\nasyncio.run(cell())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=finished, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 5
    shutil.rmtree(finished / "runs" / "mine")
    assert toolbank("run", "mine.yaml", cwd=finished).returncode == 0


def indented(code):
    return "\n".join(f"    {line}" for line in code.splitlines())


def test_search_prints_tools_and_writes_a_file_of_hits(finished):
    done = toolbank("search", "runs/mine", "middle value of my data", cwd=finished)
    assert "statistics.median" in done.stdout
    (finished / "asked.jsonl").write_text(
        '{"id": "a", "query": "middle value"}\n{"id": "b", "query": "read JSON text"}\n'
    )
    done = toolbank(
        *("search", "runs/mine", "--queries", "asked.jsonl", "--k", "3"),
        *("--retriever", "bm25", "--out", "hits.jsonl"),
        cwd=finished,
    )
    assert done.returncode == 0, done.stderr
    hits = [json.loads(line) for line in (finished / "hits.jsonl").open()]
    assert [hit["id"] for hit in hits] == ["a", "b"]
    assert all(len(hit["tools"]) == len(hit["scores"]) == 3 for hit in hits)


def test_evaluate_takes_any_labelled_file_and_reports_strange_names(finished):
    (finished / "asked.jsonl").write_text(
        '{"query": "middle value", "tools": ["statistics.median", "no.such"]}\n'
    )
    done = toolbank(
        *("evaluate", "runs/mine", "--on", "asked.jsonl", "--out", "m.json"),
        cwd=finished,
    )
    assert done.returncode == 0, done.stderr
    assert "no.such" in done.stdout
    records = json.loads((finished / "m.json").read_text())
    assert {record["set"] for record in records} == {"asked"}
    assert "asked (n = 1)" in done.stdout
    assert "test" not in done.stdout
    every = toolbank(
        "evaluate", "runs/mine", "--on", "asked.jsonl", "--all", cwd=finished
    )
    assert "asked (n = 1), in percent." in every.stdout
    assert "test" not in every.stdout


def test_evaluate_alone_takes_the_sets_of_the_recipe_and_says_which_are_gone(tmp_path):
    asked = '{"query": "middle value", "tools": ["statistics.median"]}\n'
    for name in ("asked", "gone"):
        (tmp_path / f"{name}.jsonl").write_text(asked)
    with Path(write_recipe(tmp_path, **BY_RULES)).open("a") as file:
        file.write("evaluate: {on: [asked.jsonl, gone.jsonl]}\n")
    assert toolbank("run", "mine.yaml", cwd=tmp_path).returncode == 0
    (tmp_path / "gone.jsonl").unlink()
    done = toolbank("evaluate", "runs/mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "asked (n = 1)" in done.stdout
    assert "gone.jsonl: not there, and so not evaluated on" in done.stdout


@pytest.mark.parametrize("form", ["jsonl", "toolbank", "functions"])
def test_export_writes_a_folder(finished, form):
    done = toolbank(
        "export", "runs/mine", "--format", form, "--out", f"as-{form}", cwd=finished
    )
    assert done.returncode == 0, done.stderr
    assert any((finished / f"as-{form}").iterdir())


def test_plan_and_preview_keep_nothing(recipe):
    plan = toolbank("plan", "mine.yaml", cwd=recipe)
    assert plan.returncode == 0, plan.stderr
    assert "30 queries" in plan.stdout
    preview = toolbank("preview", "mine.yaml", "--count", "2", cwd=recipe)
    assert preview.returncode == 0, preview.stderr
    assert preview.stdout.count("--- write: reply") == 2
    assert not (recipe / "runs").exists()


def test_a_finished_run_can_be_planned_with_more_queries(finished):
    plan = toolbank("plan", "mine.yaml", "--set", "generate.queries=50", cwd=finished)
    assert plan.returncode == 0, plan.stderr
    assert "50 queries over" in plan.stdout


def test_init_writes_a_recipe_that_reads(tmp_path):
    done = toolbank("init", "mine", "--package", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert toolbank("plan", "mine.yaml", cwd=tmp_path).returncode == 0
    again = toolbank("init", "mine", cwd=tmp_path)
    assert again.returncode == 2
    assert "there already" in again.stderr


def test_init_leaves_nothing_that_a_plan_takes_for_an_answer(tmp_path):
    toolbank(
        "init",
        "mine",
        "--package",
        "json",
        "--base-url",
        "http://127.0.0.1:1/v1",
        cwd=tmp_path,
    )
    done = toolbank("plan", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "Write `model: NAME` under `generate`" in done.stderr
    toolbank("init", "bare", cwd=tmp_path)
    done = toolbank("plan", "bare.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "needs `sources`" in done.stderr
    for name in ("mine", "bare"):
        assert "your" not in re.sub("#.*", "", (tmp_path / f"{name}.yaml").read_text())


def test_init_gives_editors_the_schema(tmp_path):
    told = toolbank("init", "mine", "--package", "json", cwd=tmp_path).stdout
    assert "Wrote toolbank.schema.json" in told
    first = (tmp_path / "mine.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=toolbank.schema.json"
    schema = tmp_path / "toolbank.schema.json"
    assert json.loads(schema.read_text()) == json.loads(
        toolbank("schema", cwd=tmp_path).stdout
    )
    schema.write_text("mine")
    told = toolbank("init", "other", "--package", "json", cwd=tmp_path).stdout
    assert "schema" not in told
    assert schema.read_text() == "mine"


def test_init_finds_the_format_of_a_dataset_by_its_files(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    done = toolbank("init", "mine", "--dataset", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "tools.jsonl: no such file" in done.stderr
    tools = [{"name": f"t{n}", "description": f"Does {n}."} for n in range(6)]
    queries = [
        {"query": f"Do the thing {n}?", "tools": [f"t{n % 6}"]} for n in range(40)
    ]
    for name, rows in (("tools", tools), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (data / f"{name}.jsonl").write_text(lines)
    (tmp_path / "recipes").mkdir()
    done = toolbank(
        *("init", "mine", "--dataset", "data", "--out", "recipes/mine.yaml"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = toolbank("plan", "recipes/mine.yaml", cwd=tmp_path).stdout
    assert "Dataset: 6 tools" in told
    both = toolbank("init", "x", "--dataset", "data", "--package", "json", cwd=tmp_path)
    assert both.returncode == 2


def test_what_init_only_hints_at_may_be_switched_on(tmp_path):
    toolbank("init", "mine", "--package", "json", "--model", "m", cwd=tmp_path)
    path = tmp_path / "mine.yaml"
    text = path.read_text()
    for key in ("price", "budget", "concurrency"):
        assert f"  # {key}: " in text
        text = text.replace(f"  # {key}: ", f"  {key}: ")
    path.write_text(text)
    told = toolbank("plan", "mine.yaml", cwd=tmp_path).stdout
    assert "cost     about $" in told


def bad(recipe, *arguments, code, told, **environment):
    done = toolbank(*arguments, cwd=recipe, **environment)
    assert done.returncode == code, (done.returncode, done.stderr)
    for part in told:
        assert part in done.stderr, done.stderr
    assert done.stderr.count("\n") <= 12


def test_usage_and_recipes(recipe):
    bad(recipe, "rnu", code=2, told=["rnu", "run"])
    bad(recipe, "run", "nothere.yaml", code=2, told=["nothere.yaml", "quickstart.yaml"])
    bad(
        *(recipe, "run", "mine.yaml", "--set", "generate.max_tools=9"),
        code=2,
        told=["max_tools (9)", "offered (6)"],
    )
    bad(
        recipe,
        "run",
        "mine.yaml",
        *("--set", "generate.offered=500"),
        *("--set", "generate.max_tools=500"),
        *("--set", "generate.min_tools=400"),
        code=2,
        told=["generate.min_tools", "400 tools", "has 44"],
    )
    bad(
        *(recipe, "run", "mine.yaml", "--from", "report", "--until", "judge"),
        code=2,
        told=["--from report"],
    )


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("run", "mine.yaml", "--out", ""), "--out"),
        (("plan", "mine.yaml", "--out="), "--out"),
        (("evaluate", "runs/mine", "--on", "a.jsonl", "--on", ""), "--on"),
        (("search", "runs/mine", "--queries", "", "--out", "x"), "--queries"),
        (("export", "runs/mine", "--out", ""), "--out"),
        (("init", "new", "--dataset", ""), "--dataset"),
        (("crawl", "--diff", "old", ""), "--diff"),
        (("show", ""), "RUN"),
    ],
)
def test_an_empty_path_is_not_the_folder_that_one_is_in(recipe, command, named):
    bad(recipe, *command, code=2, told=[f"'{named}': it is empty"])
    assert {path.name for path in recipe.iterdir()} == {"mine.yaml"}


def test_init_refuses_what_a_recipe_can_not_hold(recipe):
    bad(recipe, "init", "a b", code=2, told=["name"])
    bad(
        *(recipe, "init", "new", "--base-url", "http://me:secret@host/v1"),
        code=2,
        told=["base_url"],
    )
    assert not (recipe / "new.yaml").exists()


def test_sources(recipe):
    bad(
        *(recipe, "run", "mine.yaml", "--set", "sources.0.package=no_such_package"),
        code=2,
        told=["no_such_package", "not installed"],
    )
    bad(recipe, "crawl", "nosite", code=2, told=["nosite.yaml", "numpy.yaml"])
    bad(
        *(recipe, "crawl", "numpy", "--base-url", "http://127.0.0.1:9/"),
        code=1,
        told=["http://127.0.0.1:9/"],
    )


def test_endpoints(recipe):
    openai = ("--set", "generate.engine=openai", "--set", "generate.model=m")
    bad(
        *(recipe, "run", "mine.yaml", *openai),
        code=2,
        told=["OPENAI_API_KEY"],
        OPENAI_API_KEY="",
    )
    bad(
        *(recipe, "run", "mine.yaml", *openai),
        *("--set", "generate.base_url=http://127.0.0.1:9/v1"),
        *("--set", "generate.retries=0", "--set", "generate.max_outage=0"),
        code=1,
        told=["http://127.0.0.1:9/v1"],
    )


def test_a_folder_that_can_not_be_written(recipe):
    (recipe / "file").write_text("in the way")
    bad(recipe, "run", "mine.yaml", "--out", "file/run", code=1, told=["file/run"])


def test_a_damaged_journal_and_a_damaged_bank(finished, tmp_path):
    out = tmp_path / "out"
    toolbank("generate", finished / "mine.yaml", "--out", out, cwd=tmp_path)
    queries = out / "bank" / "queries.parquet"
    whole = queries.read_bytes()
    queries.write_bytes(whole[:100])
    done = toolbank("evaluate", out, cwd=tmp_path)
    assert done.returncode == 2
    done = toolbank("generate", finished / "mine.yaml", "--out", out, cwd=tmp_path)
    assert done.returncode == 0
    assert "queries.parquet" in done.stderr
    assert queries.read_bytes() == whole
    queries.unlink()
    (out / "journal.sqlite").write_bytes(b"rubbish" * 1000)
    bad(
        *(tmp_path, "generate", finished / "mine.yaml", "--out", out),
        code=1,
        told=["journal.sqlite", "damaged"],
    )


def test_a_search_by_damaged_figures(finished, tmp_path):
    run = shutil.copytree(finished / "runs" / "mine", tmp_path / "run")
    (run / "validation.json").write_text("[1, 2]")
    bad(tmp_path, "search", "run", "x", code=2, told=["validation.json"])


def test_labelled_files_with_broken_lines(finished):
    (finished / "broken.jsonl").write_text(
        '{"query": "a", "tools": ["x"]}\n{"query": 3}\nnot json\n'
    )
    bad(
        *(finished, "evaluate", "runs/mine", "--on", "broken.jsonl"),
        code=2,
        told=["broken.jsonl", "2", "3"],
    )


def test_labels_that_are_all_of_another_bank(finished):
    (finished / "strange.jsonl").write_text('{"query": "a", "tools": ["np.x"]}\n')
    bad(
        *(finished, "evaluate", "runs/mine", "--on", "strange.jsonl"),
        code=2,
        told=["strange.jsonl", "np.x", "json."],
    )


def test_requests_and_folders_that_can_not_be(finished):
    bad(finished, "search", "runs/mine", "  ", code=2, told=["empty"])
    bad(finished, "run", "runs/mine", "--from", "x", code=2, told=["'--from': 'x' is"])
    bad(finished, "search", "runs/mine", "x", "--out", "y", code=2, told=["together"])
    bad(
        *(finished, "export", "runs/mine", "--format", "jsonl"),
        *("--out", "runs/mine/bank/copy"),
        code=2,
        told=["in the folder of a run"],
    )
    bad(finished, "run", "mine.yaml", "--out", "mine.yaml", code=2, told=["a file"])
    bad(
        *(
            finished,
            "plan",
            "mine.yaml",
            "--out",
            "new",
            "--set",
            "generate.offered=50",
            "--set",
            "generate.max_tools=50",
            "--set",
            "generate.min_tools=45",
        ),
        code=2,
        told=["generate.min_tools", "45 tools", "has 44"],
    )
    bad(finished, "plan", "mine.yaml", "--set", f"seed={2**70}", code=2, told=["seed"])


def test_runs_that_are_not_there(recipe):
    bad(recipe, "search", "runs/none", "x", code=2, told=["runs/none"])
    bad(recipe, "evaluate", "runs/none", code=2, told=["runs/none"])
    bad(recipe, "export", "runs/none", "--out", "x", code=2, told=["runs/none"])
    bad(recipe, "report", "mine.yaml", code=2, told=["runs/mine", "not done"])
    assert not (recipe / "runs").exists()
    bad(recipe, "judge", "runs/quikstart", code=2, told=["runs/quikstart", "folder"])


def test_a_folder_that_another_process_holds(finished):
    script = (
        "import sys; from pathlib import Path; from toolbank.run.folder import RunFolder\n"
        "with RunFolder(Path('runs/mine')).locked():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=finished,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        told = ["in use", f"process {holder.pid} on {platform.node()} since 2"]
        bad(finished, "run", "mine.yaml", code=1, told=told)
        holder.communicate("")
