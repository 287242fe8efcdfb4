"""What is said of input that can not be: where, what, and what to do."""

import platform
import shutil
import subprocess
import sys

import pytest

from tests.commands.in_process import toolbank
from tests.commands.refusals import bad


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
        told=["generate.min_tools", "400 tools", "has 27"],
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
    assert {path.name for path in recipe.iterdir()} == {"mine.yaml", "tools.json"}


def test_sources(recipe):
    bad(
        *(recipe, "run", "mine.yaml"),
        *("--set", "sources.0={type: python, package: no_such_package}"),
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
    bad(recipe, "run", "mine.yaml", "--out", "file/run", code=2, told=["file/run"])


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
        code=2,
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
        told=["strange.jsonl", "np.x", "statistics."],
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
        told=["generate.min_tools", "45 tools", "has 27"],
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
