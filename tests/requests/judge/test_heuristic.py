import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.requests.judge.judges import (
    READ_BY_EYE,
    Features,
    JudgeConfig,
    compare,
    read_features,
)

CRITERIA = JudgeConfig().criteria
STEPWISE = (
    "Load the sales table, sort it by date, and then compute the running total. "
    "Plot it. Then save it to a file."
)
MERGED = "Show me how our sales added up over the year, in date order, on one chart."


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_chain_of_commands_loses_to_a_merged_request(criterion):
    assert compare(criterion, read_features(MERGED), read_features(STEPWISE)) == "A"


@given(first=st.text(), second=st.text(), criterion=st.sampled_from(CRITERIA))
def test_swapping_the_texts_swaps_the_verdict(first, second, criterion):
    swapped = {"A": "B", "B": "A", "tie": "tie"}
    a, b = read_features(first), read_features(second)
    assert compare(criterion, a, b) == swapped[compare(criterion, b, a)]


def test_features_are_counted():
    features = read_features(
        "Sort the rates. Sort the dates, then drop the last. Is it cold if it snows?",
        ["numpy.sort", "numpy.lexsort"],
    )
    assert features == Features(
        chained_commands=2,
        sequence_words=1,
        sentences=3,
        command_sentences=1,
        conditionals=1,
        tool_words=0.5,
        repeated_openings=1,
    )
    rank = ["numpy.linalg.matrix_rank"]
    assert read_features("the rank of this matrix", rank).tool_words == 1
    assert read_features("the rank of this table", rank).tool_words == 0


def test_the_stated_disagreement_with_a_reader_is_the_counted_one():
    """The 30 verdicts were written down before the heuristic's were seen."""
    root = Path(__file__).resolve().parents[3]
    rows = _lines(root / "recipes/data/numpy-written.jsonl")
    written = {row["id"]: row for row in rows}
    verdicts = _lines(Path(__file__).with_name("read_by_eye.jsonl"))
    name = {"A": "win", "B": "lose", "tie": "tie"}
    disagree = dict.fromkeys(CRITERIA, 0)
    for verdict in verdicts:
        row = written[verdict["id"]]
        query, draft = (read_features(row[k], row["tools"]) for k in ("query", "draft"))
        for criterion in CRITERIA:
            found = name[compare(criterion, query, draft)]
            disagree[criterion] += found != verdict[criterion]
    assert {"pairs": len(verdicts), "disagree": disagree} == READ_BY_EYE


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
