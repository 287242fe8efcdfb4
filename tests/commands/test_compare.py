"""Banks of every form beside each other."""

import json

import pytest

from tests.commands.in_process import do
from tests.requests.quality.banks import bank
from tests.tiny_models import tiny_encoder
from tests.world import write_dataset, write_lines
from toolbank.commands import compare as measure
from toolbank.encoders.sentence import SentenceConfig

ROWS = [
    (f"How many of {n} boxes came back in week {n}?", ["shop.sum", "shop.weigh"])
    for n in range(30)
]


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


def test_every_form_is_a_column(folder):
    done = do(folder, *("compare", "run", "data", "asked.jsonl", "--no-encoder"))
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["run", "data", "asked"] in lines
    assert ["requests", "30", "30", "31"] in lines
    assert ["tools", "4", "4", "0"] in lines
    assert ["changed", "by", "polish,", "%", "\u2013", "100.0", "100.0"] in lines
    assert "terse: of their tools' names, said" in done.stdout
    assert "data: 1 skipped: query: blank" in done.stderr
    assert "asked.jsonl: queries without tools" in " ".join(done.stderr.split())
    assert not {"\u001b", "\u202e"} & set(done.stdout)


def test_json_has_what_a_script_needs(folder, monkeypatch):
    encoder = SentenceConfig(model=str(tiny_encoder(folder / "tiny")))
    monkeypatch.setattr(measure, "SentenceConfig", lambda: encoder)
    command = ("compare", "run", "data", "--json", "--seed", "3")
    done = do(folder, *command)
    found = json.loads(done.stdout)
    run, data = found["banks"]
    assert (found["seed"], run["name"], data["name"]) == (3, "run", "data")
    assert (run["asks"], data["asks"]) == (1, 0)
    assert run["dispersion"] == data["dispersion"]
    assert run["dispersion"]["n"] == 30
    assert do(folder, *command).stdout == done.stdout
    assert "data is about:" in do(folder, "compare", "data").stdout


def test_without_an_encoder_the_rest_is_told(folder, monkeypatch):
    missing = SentenceConfig(model=str(folder / "gone"))
    monkeypatch.setattr(measure, "SentenceConfig", lambda: missing)
    done = do(folder, "compare", "run")
    assert "without dispersion and topics" in done.stderr
    assert "gone" in done.stderr
    assert "self-BLEU" in done.stdout


def test_folders_of_one_name_are_told_apart(folder):
    (folder / "other").mkdir()
    (folder / "data").rename(folder / "other" / "run")
    done = do(folder, "compare", "run", "other/run", "--no-encoder", "--json")
    names = [bank["name"] for bank in json.loads(done.stdout)["banks"]]
    assert names == ["run", "other/run"]


def test_what_is_no_bank_is_refused(folder):
    (folder / "empty.jsonl").write_text("")
    (folder / "empty").mkdir()
    for given in ("nothing", "empty", "empty.jsonl"):
        done = do(folder, "compare", "run", given, "--no-encoder", code=2)
        assert given in done.stderr
