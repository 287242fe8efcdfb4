import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS
from tests.shared import shared
from toolbank.papers.instructions.data import Task, parse_task
from toolbank.system.files import read_lines

pytest.importorskip("textblob")


@given(st.text(max_size=80))
def test_any_text_has_one_task(text):
    task = parse_task(text)
    assert task == parse_task(text)
    assert task.verb and task.noun


def test_verb_and_noun_and_their_synonyms():
    labels = json.loads((CORPUS / "orders" / "tasks.json").read_text())
    assert {text: parse_task(text).label for text in labels} == labels
    one, other = Task("make", "dialog"), Task("create", "dialogue")
    assert one.merged() == other.merged() == other


def test_nine_tenths_of_the_benchmark_labels_are_found():
    file = shared("data/instruction-embedding/ift_test.jsonl")
    rows = read_lines(file, lambda row, _: row)
    found = [
        parse_task(row["instruction"]).label in row["label"].split("##") for row in rows
    ]
    assert sum(found) / len(found) > 0.9
