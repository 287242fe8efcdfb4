"""Banks of every form: two with intervals and a page of their own, more side by side."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from tests.commands.in_process import do, sets
from tests.requests.quality.banks import bank
from tests.servers.chat import Answer, ChatServer
from tests.tiny_models import tiny_encoder
from tests.world import write_dataset, write_lines
from toolbank.bank.bank import Bank, Label
from toolbank.commands import compare as measure
from toolbank.encoders.sentence import SentenceConfig
from toolbank.run.candidate_sets import pair_attempts
from toolbank.system.files import read_json, write_json

ROWS = [
    (f"How many of {n} boxes came back in week {n}?", ["shop.sum", "shop.weigh"])
    for n in range(30)
]
RETRIEVERS = "retrievers=[{type: bm25, requests: true, name: words}]"


@pytest.fixture
def folder(tmp_path):
    """A run's folder, a dataset, and a file; the last has what could steer a terminal."""
    of = bank(*ROWS, asks=[("shop.sum", "terse", "total price")])
    of.save(tmp_path / "run" / "bank")
    queries = [{"query": text, "tools": tools, "draft": "Do."} for text, tools in ROWS]
    tools = [{"name": tool.name, "description": tool.summary} for tool in of.tools]
    write_dataset(tmp_path / "data", tools, [*queries, {"query": "", "tools": []}])
    odd = {"query": "\u001b[2J\u202eboo\n boo", "tools": ["\u001b[0m"]}
    write_lines(tmp_path / "asked.jsonl", [odd, *queries])
    return tmp_path


@pytest.fixture
def runs(finished):
    """Two runs with the same candidate sets; requests of B are markup, and all begin alike."""
    first = finished / "runs" / "mine"
    second = shutil.copytree(first, finished / "runs" / "other")
    of = Bank.load(second / "bank")
    changed = [
        one.model_copy(update={"query": f"<b>Please please</b> {one.query}"})
        for one in of.queries
    ]
    Bank(of.tools, tuple(changed), of.info).save(second / "bank")
    return finished


def read_comparison(folder):
    """The latest comparison."""
    found = folder.glob("runs/comparisons/mine-vs-other-*/comparison-*.json")
    return read_json(max(found, key=lambda path: path.stat().st_mtime_ns))


def find(comparison, name):
    [found] = (one for one in comparison["figures"] if one["name"] == name)
    return found


def test_a_dataset_and_a_file_are_banks(folder):
    done = do(folder, *("compare", "data", "asked.jsonl", "--no-encoder"))
    assert "30 requests of A and 31 of B" in done.stdout
    assert "data: 1 skipped: query that no tool fits: blank" in done.stderr
    assert "asked.jsonl: queries without tools" in " ".join(done.stderr.split())
    assert not {"\u001b", "\u202e"} & set(done.stdout)


@pytest.mark.parametrize("banks", [["run"], ["run", "data", "asked.jsonl"]])
def test_other_numbers_of_banks_than_two_are_refused(folder, banks):
    done = do(folder, "compare", *banks, code=2)
    assert "compare" in done.stderr and "A B" in done.stderr


def test_json_has_what_a_script_needs(folder, monkeypatch):
    encoder = SentenceConfig(model=str(tiny_encoder(folder / "tiny")))
    monkeypatch.setattr(measure, "SentenceConfig", lambda: encoder)
    command = ("compare", "run", "data", "--json", "--seed", "3")
    done = do(folder, *command)
    found = json.loads(done.stdout)
    assert (found["seed"], found["a"], found["b"]) == (3, "run", "data")
    assert find(found, "cosine of two requests")["difference"] == 0
    assert do(folder, *command).stdout == done.stdout
    # One file for the same figures, another for others.
    do(folder, *command[:-1], "4")
    assert len(list(folder.glob("comparisons/run-vs-data-*/comparison-*.json"))) == 2


def test_without_an_encoder_the_rest_is_compared(folder, monkeypatch):
    missing = SentenceConfig(model=str(folder / "gone"))
    monkeypatch.setattr(measure, "SentenceConfig", lambda: missing)
    done = do(folder, "compare", "run", "data")
    assert "without cosines" in done.stderr
    assert "gone" in done.stderr
    assert "distinct-2" in done.stdout


def test_other_catalogues_are_named_first_and_get_no_verdict_on_coverage(folder):
    write_dataset(
        folder / "more",
        ["shop.sum", "shop.weigh", *(f"tool_{n}" for n in range(60))],
        [{"query": text, "tools": tools} for text, tools in ROWS],
    )
    done = do(folder, "compare", "data", "more", "--no-encoder", "--json")
    found = json.loads(done.stdout)
    assert "2 are in both" in found["sentences"][0]
    coverage = [one for one in found["figures"] if one["section"] == "Coverage"]
    assert len(coverage) == 3 and not any(one["holds"] for one in coverage)
    assert {one["p"] for one in coverage} == {None}


def test_folders_of_one_name_are_told_apart(folder):
    (folder / "other").mkdir()
    (folder / "data").rename(folder / "other" / "run")
    done = do(folder, "compare", "run", "other/run", "--no-encoder", "--json")
    found = json.loads(done.stdout)
    assert (found["a"], found["b"]) == ("run", "other/run")


def test_what_is_no_bank_is_refused(folder):
    (folder / "empty.jsonl").write_text("")
    (folder / "empty").mkdir()
    for given in ("nothing", "empty", "empty.jsonl"):
        done = do(folder, "compare", "run", given, "--no-encoder", code=2)
        assert given in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "data", "--seeds", "2"], "--on"),
        (["run", "data", "--set", "seed=1"], "--judge"),
        (["run", "data", "--retriever", "bm25"], "--on"),
        (["asked.jsonl", "data", "--on", "asked.jsonl"], "asked.jsonl"),
        (["data", "asked.jsonl", "--on", "asked.jsonl"], "tools.jsonl"),
        (["data", "run", "--judge"], "not a run"),
        (["run", "data", "--out", "data"], "not the folder of a comparison"),
    ],
)
def test_what_cannot_be_compared_so_is_named(folder, arguments, told):
    if "--out" in arguments:
        done = do(folder, "compare", *arguments, "--no-encoder")
        [made] = (folder / "data").glob("run-vs-data-*")
        (made / ".toolbank.json").unlink()
    done = do(folder, "compare", *arguments, "--no-encoder", code=2)
    assert told in " ".join(done.stderr.split())


def test_two_runs_are_paired_by_candidate_set(runs):
    do(runs, "compare", "runs/mine", "runs/other", "--no-encoder")
    found = read_comparison(runs)
    attempts = read_json(runs / "runs/mine/bank/bank.json")["counts"]["attempts"]
    assert (found["pairs"], found["requests"]) == (attempts, [30, 30])
    openings = find(found, "requests with one of the 10 commonest openings")
    assert (openings["b"], openings["winner"]) == (1, "A")
    assert find(found, "attempts accepted")["difference"] == 0
    assert not find(found, "tools used at least once")["holds"]
    [page] = runs.glob("runs/comparisons/*/comparison-*.html")
    assert found["sentences"][0] in page.read_text().replace("&#39;", "'")
    assert any("--on FILE" in text for text in found["missing"])


@pytest.mark.parametrize("other", ["reader", "another"])
def test_labels_of_other_graders_are_not_compared(runs, other):
    for name, model in (("mine", "reader"), ("other", other)):
        of = Bank.load(runs / "runs" / name / "bank")
        labels = [
            Label(query=one.id, tool=tool, grade="needed", kind="model")
            for one in of.queries
            for tool in one.tools
        ]
        replace(of, labels=tuple(labels)).save(runs / "runs" / name / "bank")
        counts = {"requests": 30, "needed": 60, "alternative": 0, "aside": 0}
        summary = {"engine": "openai", "model": model, "counts": counts}
        rest = {"candidates": {}, "findings": {}, "calls": {}}
        write_json(runs / "runs" / name / "verify.json", summary | rest)
    do(runs, "compare", "runs/mine", "runs/other", "--no-encoder")
    found = read_comparison(runs)
    named = [one["name"] for one in found["figures"] if one["section"] == "Labels"]
    assert ("requests set aside" in named) == (other == "reader")
    if other == "another":
        assert "openai another" in found["missing"][0]


def test_other_seeds_are_not_paired(runs):
    do(
        runs,
        "run",
        "mine.yaml",
        *sets("seed=7"),
        "--out",
        "runs/seven",
        "--until",
        "generate",
    )
    pairs = pair_attempts(runs / "runs/mine", runs / "runs/seven")
    assert (pairs.pairs, "same seed" in pairs.reason) == ((), True)
    done = do(runs, "compare", "runs/mine", "runs/seven", "--no-encoder")
    assert "Unpaired" in done.stdout


def test_nothing_of_a_bank_becomes_markup(runs):
    named = (runs / "runs/other").rename(runs / "runs/<script>alert(1)<")
    do(runs, "compare", "runs/mine", named, "--no-encoder")
    [page] = runs.glob("runs/comparisons/*/comparison-*.html")
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_judge_is_asked_once_about_pairs_of_one_candidate_set(runs):
    def answer(call):
        first, second = (call.prompt.find(part) for part in ("Please please", "Text B"))
        return Answer.json({"reason": "", "winner": "B" if first < second else "A"})

    with ChatServer(answer) as server:
        model = f"judge={{engine: openai, base_url: '{server.url}', model: m, pairs: 12, criteria: [fluency]}}"
        command = ("compare", "runs/mine", "runs/other", "--no-encoder")
        done = do(runs, *command, "--judge", *sets(model))
        assert len(server.calls) == 24
        do(runs, *command, "--judge", *sets(model))
        do(runs, *command)
        assert len(server.calls) == 24
    assert "24" in done.stderr
    found = read_comparison(runs)
    assert (found["judge"]["pairs"], found["judge"]["same_set"]) == (12, 12)
    preferred = find(found, "preferred by fluency")
    assert (preferred["a"], preferred["b"]) in [(1, 0), (0, 0)]
    assert read_json(runs / "runs/mine/judge.json")["against"] == "draft"


def test_a_judge_in_a_batch_is_awaited(runs):
    model = "judge={engine: batch, model: m, pairs: 3}"
    command = ("compare", "runs/mine", "runs/other", "--no-encoder", "--judge")
    done = do(runs, *command, *sets(model), code=3)
    assert "the same `toolbank compare` command" in done.stderr
    assert "toolbank run" not in done.stderr
    [file] = runs.glob("runs/comparisons/*/batch/*.jsonl")
    assert len(file.read_text().splitlines()) == 3 * 3 * 2


def test_damaged_verdicts_are_named(runs):
    (runs / "runs/mine/judge.json").write_text('{"judge": 1, "pairs": [{}]}')
    done = do(runs, "compare", "runs/mine", "runs/other", "--no-encoder", code=2)
    assert "judge.json" in done.stderr


def test_judge_against_a_run_pairs_the_same_candidate_sets(runs):
    do(runs, "judge", "runs/mine", "--against", "runs/other", "--pairs", "8")
    judged = read_json(runs / "runs/mine/judge.json")
    assert all(pair["query_id"] == pair["other_id"] for pair in judged["pairs"])
    # The comparison with the drafts is kept, and `compare` finds the new one.
    assert [one["against"] for one in judged["others"]] == ["draft"]
    do(runs, "compare", "runs/mine", "runs/other", "--no-encoder")
    assert read_comparison(runs)["judge"]["pairs"] == 8


@pytest.mark.slow
def test_retrievers_are_trained_once_on_both_and_tested_on_others(runs):
    of = Bank.load(runs / "runs/mine/bank")
    rows = [
        {"query": f"anything like {one.tools[0]} {n}", "tools": one.tools}
        for n, one in enumerate(of.queries)
    ]
    copies = [
        {"query": one.query.upper(), "tools": one.tools} for one in of.queries[:4]
    ]
    write_lines(runs / "on.jsonl", [*rows, *copies])
    command = ("compare", "runs/mine", "runs/other", "--no-encoder", "--on", "on.jsonl")
    more = ("--seeds", "2", *sets(RETRIEVERS))
    do(runs, *command, *more)
    found = read_comparison(runs)
    downstream = found["downstream"]
    assert downstream["requests"] == 30
    assert downstream["copies"] == {"mine": 4, "other": 0}
    assert (downstream["train"], downstream["seeds"]) == (30, 2)
    recall = find(found, "R@5 of words")
    assert recall["n"] == 30
    assert recall["low"] <= recall["difference"] <= recall["high"]
    models = sorted(runs.glob("runs/comparisons/*/sweep-on-*/*/models/words"))
    made = [path.stat().st_mtime_ns for path in models]
    assert len(models) == 4
    do(runs, *command, *more)
    assert [path.stat().st_mtime_ns for path in models] == made
    # It is an ordinary sweep, and another file trains nothing.
    [tables] = runs.glob("runs/comparisons/*/sweep-on-*/tables.tex")
    assert "words" in tables.read_text()
    write_lines(runs / "more.jsonl", rows[:20])
    done = do(runs, *command[:-1], "more.jsonl", *more)
    assert len(re.findall(r"^retrievers/words +as in", done.stderr, re.M)) == 4
    assert read_comparison(runs)["downstream"]["requests"] == 20
    write_lines(runs / "few.jsonl", rows[:2])
    done = do(runs, *command[:-1], "few.jsonl", *more)
    assert "few.jsonl: 2 requests" in done.stderr
    assert "R@5 of words: no verdict" in " ".join(done.stdout.split())
    shutil.rmtree(runs / "runs/comparisons")
    done = do(runs, *command, "--retriever", "nope", code=2)
    assert "nope" in done.stderr and not (runs / "runs/comparisons").exists()
    done = do(runs, *command, *sets("retrievers=[{type: bm25}]"), code=2)
    assert "learns from requests" in done.stderr
