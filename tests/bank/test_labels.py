"""Verified labels on disk and by request."""

import polars as pl
import pytest

from toolbank.bank.bank import Bank, Label, group_labels, read_labels
from toolbank.bank.records import Query, Tool
from toolbank.system.errors import InputError

LABELS = (
    Label(query="q1", tool="m.sort", grade="needed", reason="it puts in order"),
    Label(query="q1", tool="m.rank", grade="alternative", stands_for="m.sort"),
    Label(query="q2", grade="aside", reason="two readings"),
)


def test_a_bank_keeps_its_labels_beside_queries_that_stay_as_written(tmp_path):
    tools = (Tool(name="m.sort"), Tool(name="m.rank"))
    queries = (Query(id="q1", query="put them in order", tools=("m.sort",)),)
    bank = Bank(tools, queries, labels=LABELS)
    bank.save(tmp_path)
    assert Bank.load(tmp_path) == bank
    frame = pl.read_parquet(tmp_path / "labels.parquet")
    columns = ["query", "tool", "grade", "for", "reason", "kind", "source"]
    assert frame.columns == columns
    assert frame["for"].to_list() == ["", "m.sort", ""]
    before = (tmp_path / "queries.parquet").read_bytes()
    Bank(tools, queries).save(tmp_path)
    assert not (tmp_path / "labels.parquet").exists()
    assert (tmp_path / "queries.parquet").read_bytes() == before


def test_labels_are_found_by_request():
    verified = group_labels(LABELS)
    assert verified["q1"].needed == ["m.sort"]
    assert verified["q1"].alternatives == {"m.sort": ["m.rank"]}
    assert verified["q2"].aside == "two readings"


def test_a_grade_that_does_not_exist_is_named_with_its_file(tmp_path):
    path = tmp_path / "labels.parquet"
    row = {"query": "q1", "tool": "m.sort", "grade": "sure", "for": "", "reason": ""}
    pl.DataFrame([row]).write_parquet(path)
    with pytest.raises(InputError, match=r"(?s)labels\.parquet.*grade"):
        read_labels(path)
