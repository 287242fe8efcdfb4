"""What is said of input that can not be: where, what, and what to do."""

import os
import platform
from pathlib import Path

import pytest

from tests.commands.in_process import do, toolbank
from tests.commands.refusals import bad
from tests.world import write_recipe
from toolbank.run.folder import RunFolder

OPENAI = "--set generate.engine=openai --set generate.model=m"
CLOSED = "http://127.0.0.1:9"
# What is typed, the exit code, and what the message names: the place, the value, the remedy.
REFUSALS = [
    ("rnu", 2, ["rnu", "run"]),
    ("run nothere.yaml", 2, ["nothere.yaml", "quickstart.yaml"]),
    ("run mine.yaml --set generate.max_tools=9", 2, ["max_tools (9)", "offered (6)"]),
    (
        "run mine.yaml --set generate.offered=500 --set generate.max_tools=500 "
        "--set generate.min_tools=400",
        2,
        ["generate.min_tools", "400 tools", "27"],
    ),
    ("run mine.yaml --from report --until judge", 2, ["--from report"]),
    (
        "run mine.yaml --set sources=[{type:\xa0python,package:\xa0no_such_package}]",
        2,
        ["no_such_package", "not installed"],
    ),
    ("crawl nosite", 2, ["nosite.yaml", "numpy.yaml"]),
    (f"crawl numpy --base-url {CLOSED}/", 1, [f"{CLOSED}/"]),
    (f"run mine.yaml {OPENAI}", 2, ["OPENAI_API_KEY"]),
    (
        f"run mine.yaml {OPENAI} --set generate.base_url={CLOSED}/v1 "
        "--set generate.retries=0 --set generate.max_outage=0",
        1,
        [f"{CLOSED}/v1"],
    ),
    ("run mine.yaml --out tools.json/run", 2, ["tools.json/run"]),
    ("search runs/none x", 2, ["runs/none"]),
    ("evaluate runs/none", 2, ["runs/none"]),
    ("export runs/none --out x", 2, ["runs/none"]),
    ("report mine.yaml", 2, ["runs/mine", "not done"]),
    ("judge runs/quikstart", 2, ["runs/quikstart", "folder"]),
]


@pytest.mark.parametrize(("command", "code", "told"), REFUSALS)
def test_what_can_not_be_is_refused_before_there_is_a_run(recipe, command, code, told):
    arguments = [word.replace("\xa0", " ") for word in command.split(" ")]
    bad(recipe, *arguments, code=code, told=told, OPENAI_API_KEY="")


OF_A_RUN = [
    ("evaluate runs/mine --on broken.jsonl", ["broken.jsonl", "2", "3"]),
    ("evaluate runs/mine --on strange.jsonl", ["strange.jsonl", "np.x", "statistics."]),
    ("search runs/mine \xa0", ["empty"]),
    ("run runs/mine --from x", ["'--from': 'x' is"]),
    ("search runs/mine x --out y", ["together"]),
    (
        "export runs/mine --format jsonl --out runs/mine/bank/copy",
        ["in the folder of a run"],
    ),
    ("run mine.yaml --out mine.yaml", ["a file"]),
    ("search runs/mine x", ["validation.json"]),
    (
        "plan mine.yaml --out new --set generate.offered=50 --set generate.max_tools=50 "
        "--set generate.min_tools=45",
        ["generate.min_tools", "45 tools", "27"],
    ),
    (f"plan mine.yaml --set seed={2**70}", ["seed"]),
]


@pytest.mark.parametrize(("command", "told"), OF_A_RUN)
def test_what_can_not_be_of_a_finished_run_is_refused(finished, command, told):
    lines = {
        "broken": '{"query": "a", "tools": ["x"]}\n{"query": 3}\nnot json\n',
        "strange": '{"query": "a", "tools": ["np.x"]}\n',
    }
    for name, text in lines.items():
        (finished / f"{name}.jsonl").write_text(text)
    (finished / "runs/mine/validation.json").write_text("[1, 2]")
    arguments = [word.replace("\xa0", " ") for word in command.split(" ")]
    bad(finished, *arguments, code=2, told=told)


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


def test_a_damaged_journal_and_a_damaged_bank(finished):
    queries = finished / "runs/mine/bank/queries.parquet"
    whole = queries.read_bytes()
    queries.write_bytes(whole[:100])
    do(finished, "evaluate", "runs/mine", code=2)
    done = do(finished, "generate", "mine.yaml")
    assert "queries.parquet" in done.stderr
    assert queries.read_bytes() == whole
    queries.unlink()
    (finished / "runs/mine/journal.sqlite").write_bytes(b"rubbish" * 1000)
    told = ["journal.sqlite", "damaged"]
    bad(finished, "generate", "mine.yaml", code=2, told=told)


def test_a_folder_that_is_in_use(finished):
    told = ["in use", f"process {os.getpid()} on {platform.node()} since 2"]
    with RunFolder(finished / "runs/mine").locked():
        bad(finished, "run", "mine.yaml", code=1, told=told)


def test_a_folder_whose_name_is_not_utf_8_is_refused_in_a_line(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9t\xe9"))
    folder.mkdir()
    done = toolbank("generate", write_recipe(folder, engine="rules"), cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "??t?" in done.stderr
