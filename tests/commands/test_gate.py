"""`toolbank evaluate` with conditions: exit codes, files and messages."""

import json
import shutil
from xml.etree import ElementTree

import pytest

from tests.commands.in_process import do
from tests.shared_runs import share_folder
from tests.world import write_dataset, write_dataset_recipe, write_lines

TOOLS = [f"tool_{word}" for word in ("mean", "sort", "plot", "sum", "join", "fill")]


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A run, and one whose training labels are another tool's; `words` learns from requests."""

    def make(folder):
        words = {"type": "bm25", "name": "words", "requests": True}
        retrievers = [{"type": "bm25"}, words]
        for name, shift in {"good": 0, "worse": 1}.items():
            (folder / name).mkdir()
            queries = [
                {
                    "id": f"{split}{i}",
                    "query": f"case{i % 12} please, {split} {i}",
                    "tools": [TOOLS[(i + shift * (split == "train")) % 6]],
                    "split": split,
                }
                for split in ("train", "test")
                for i in range(24)
            ]
            write_dataset(folder / name / "data", TOOLS, queries)
            write_dataset_recipe(folder / name, "mine", retrievers=retrievers)
            do(folder / name, "run", "mine.yaml", "--out", f"../{name}-run")

    return share_folder(tmp_path_factory, "gated-runs", make)


@pytest.fixture
def runs(shared, tmp_path):
    return shutil.copytree(shared, tmp_path / "runs")


def gate(runs, *arguments, code=0, run="good-run"):
    words = ("--retriever", "words")
    return do(runs, "evaluate", run, *words, *map(str, arguments), code=code)


def test_a_threshold_decides_the_exit_code_and_the_message_has_the_figures(runs):
    assert "passed  recall@5" in gate(runs, "--min", "recall@5=0.9").stdout
    done = gate(runs, "--min", "recall@3=0.9", code=1, run="worse-run")
    assert "1 of 1 check failed" in done.stderr
    for part in ("recall@3", "test", "words", "0.9", "n = 24", "95 % interval"):
        assert part in done.stderr
    assert "Retrieval on held-out requests" in done.stdout


@pytest.mark.parametrize(
    "old", ["good-run", "good-run/hits/words.jsonl", "good-run/models/words", "saved"]
)
def test_a_worse_run_fails_against_each_form_of_the_better_one(runs, old):
    if old == "saved":
        do(runs, "pack", "good-run", "--retriever", "words", "--out", "saved")
    files = ("--json", runs / "gate.json", "--junit", runs / "gate.xml")
    done = gate(runs, "--against", old, *files, code=1, run="worse-run")
    assert f"below {old}" in done.stderr and "Traceback" not in done.stderr
    record = json.loads((runs / "gate.json").read_text())
    [changes] = record["changes"]
    assert changes["n"] == 24 and len(changes["lost"]) > 3
    assert {"id", "query", "tools"} == changes["lost"][0].keys()
    root = ElementTree.parse(runs / "gate.xml").getroot()
    assert root.get("failures") == "1" and root.find(".//failure") is not None
    assert "passed" in gate(runs, "--against", old).stdout


def test_a_file_of_labelled_requests_is_checked_instead_of_test(runs):
    rows = [{"query": f"case{i}", "tools": [TOOLS[i % 6]]} for i in range(12)]
    write_lines(runs / "mine.jsonl", rows)
    on = ("--on", "mine.jsonl")
    done = gate(
        runs, *on, "--min", "mine:mrr=0.9", "--against", "good-run/models/words"
    )
    assert "mrr of words on mine reaches 0.9" in done.stdout
    done = gate(runs, *on, "--against", "good-run", code=2)
    assert "0 requests of mine (n = 12)" in done.stderr and "evaluate.on" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--min", "recall@4=0.5"), "Metrics: recall@3, recall@5"),
        (("--min", "other:recall@5=0.5"), "Sets: test"),
        (("--min", "recall=80"), "recall@5=0.80"),
        (("--against", "good-run/metrics.json"), "hits/words.jsonl"),
        (("--against", "nowhere"), "no such file or folder"),
        (("--against", "good/data/queries.jsonl"), "--on"),
        (("--json", "gate.json"), "--min or --against"),
        (("--against", "good-run", "--tolerance", "2"), "from 0 to 1"),
        (("--min", "mrr=0", "--junit", "data.xml", "--json", "data.xml"), "data.xml"),
        (("--min", "mrr=0", "--json", "good-run/gate.json"), "good-run"),
    ],
)
def test_bad_conditions_end_with_2_and_what_there_is(runs, arguments, told):
    assert told in gate(runs, *arguments, code=2).stderr


def test_an_unknown_retriever_is_refused_with_those_that_are_there(runs):
    arguments = ("--retriever", "nope", "--min", "mrr=0")
    assert "bm25, words" in do(runs, "evaluate", "good-run", *arguments, code=2).stderr
    (runs / "worse-run/hits/words.jsonl").unlink()
    done = gate(runs, "--against", "worse-run", code=2)
    assert "there are: bm25" in done.stderr and "NAME.jsonl" in done.stderr
