"""What the page says of how a bank was made."""

import pytest

from tests.report.conftest import COUNTS, make_bank
from tests.report.page import parse, rows_of, text_of, write
from toolbank.bank.bank import Bank
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json


def test_counts_on_the_page_are_the_banks(run):
    html = write(run)
    keys = text_of(html, ".keys")
    # Four of five tools have a request.
    for told in ("tools5", "requests6", "4 train", "2 test", "50 %of 12", "80 %"):
        assert told in keys
    rows = rows_of(parse(html), ".funnel tr:not(.examples)")
    told = {row[0]: int(row[1]) for row in rows}
    assert told == {
        "accepted": 6,
        "declined by the writer": 1,
        "rejected: identifier": 2,
        "rejected: near-duplicate": 1,
        "failed: http-500": 2,
    }
    assert sum(told.values()) == COUNTS["attempts"]
    sum_of_them = "12 attempts = 6 accepted + 1 declined + 3 rejected + 2 failed."
    made = text_of(html, "#made")
    assert sum_of_them in made and "What the calls took" not in made
    assert "tool_7 stands in the text" in text_of(html, ".examples")
    assert "1 tool that no request uses" in text_of(html, "#bank summary")
    assert "lib.absent \u00d7 4" in text_of(html, "#bank")


def test_numbers_of_tools_asked_for_stand_beside_what_was_accepted(run):
    path = run / "bank" / "bank.json"
    info = read_json(path)
    assert "tools asked for" not in write(run)
    numbers = {"1": {"asked": 731, "accepted": 5}, "2": {"asked": 11, "accepted": 1}}
    write_json(path, {**info, "counts": {**COUNTS, "tools_per_query": numbers}})
    made = write(run)
    assert "tools asked for" in made and "731" in made
    write_json(path, {**info, "counts": {**COUNTS, "tools_per_query": {"1": 7}}})
    with pytest.raises(InputError, match=r"bank\.json"):
        write(run)


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("rules", "without a language model"),
        ("recorded", "not written in this run"),
        ("openai", "some-model"),
    ],
)
def test_the_engine_is_told_honestly(run, engine, told):
    bank = make_bank()
    bank.info["generate"]["engine"] = engine
    bank.save(run / "bank")
    assert told in text_of(write(run), "header")


def test_a_bank_of_a_dataset_tells_what_was_left_out(run):
    bank = make_bank()
    info = {
        "dataset": {"type": "jsonl", "files": {}},
        "left_out": {"query: <blank>": {"count": 3, "examples": ["q<1>"]}},
        "counts": {"tools": 5, "queries": 6},
        "withheld": {"tools": ["lib.part.tool4"], "queries_left_out": 2},
    }
    Bank(bank.tools, bank.queries, info).save(run / "bank")
    (run / "bank" / "attempts.parquet").unlink()
    told = text_of(write(run), "#made")
    assert "dataset of others, in the layout jsonl" in told
    assert "query: <blank>3q<1>" in told
    assert "1 tool withheld from training" in told


def test_what_of_the_sources_became_no_tool_is_counted_on_the_page(run):
    path = run / "bank" / "bank.json"
    sources = {
        "sources": [
            {"source": "sphinx:lib", "left_out": {"not included": 1_112, "gone": 3}},
            {"source": "python:lib"},
        ],
        "notes": ["python:lib: left out: 4 exceptions"],
        "problems": ["python:lib: line <3>", "lib: b.py is gone"],
    }
    write_json(path, {**read_json(path), "sources": sources})
    made = parse(write(run)).css_first("#made").text(separator=" ")
    told = " ".join(made.split())
    assert "sphinx:lib not included 1,112 sphinx:lib gone 3" in told
    assert "2 problems in reading the sources python:lib: line <3> lib: b.py" in told
    assert f"1 note in reading the sources {sources['notes'][0]}" in told
