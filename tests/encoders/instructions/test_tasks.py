import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import shared
from toolbank.papers.instructions.data import Task, parse_task
from toolbank.system.files import read_lines

pytest.importorskip("textblob")


@pytest.mark.parametrize(
    ("instruction", "label"),
    [
        ("Outline the steps to make an apple pie.", "outline|step"),
        ("List 5 items from given category.", "list|item"),
        ("Given a list of words, output the words of three letters.", "output|word"),
        ("In this task, you will generate a Turkish proverb.", "generate|proverb"),
        ("Can you make up a song using the lyrics below?", "make|song"),
        ("Imagine you are a chef. Provide a recipe for your dish.", "provide|recipe"),
        ("How would you describe your friend to a stranger?", "describe|friend"),
        ("What is the capital of France?", "what|knowledge"),
        ("Is a tomato a fruit or a vegetable?", "yes-no|knowledge"),
        ("Is the following sentence a question?", "yes-no|task"),
        ("One of the best", "noun|knowledge"),
        ("", "noun|knowledge"),
    ],
)
def test_verb_and_noun(instruction, label):
    assert parse_task(instruction).label == label


@given(st.text(max_size=80))
def test_any_text_has_one_task(text):
    task = parse_task(text)
    assert task == parse_task(text)
    assert task.verb and task.noun


def test_synonyms_name_one_task():
    one, other = Task("make", "dialog"), Task("create", "dialogue")
    assert one.merged() == other.merged() == other


def test_nine_tenths_of_the_benchmark_labels_are_found():
    file = shared("data/instruction-embedding/ift_test.jsonl")
    rows = read_lines(file, lambda row, _: row)
    found = [
        parse_task(row["instruction"]).label in row["label"].split("##") for row in rows
    ]
    assert sum(found) / len(found) > 0.9
