"""ToolBench's conversations, on a file made by hand."""

import json

import pytest

from tests.datasets.loaders.samples import config, make_conversations
from toolbank.datasets import DATASETS
from toolbank.system.errors import InputError

NAME = "toolbench-conversations"


def read(folder):
    return DATASETS.load(NAME).read(config(NAME, folder))


def test_each_assistant_turn_is_a_step_and_finish_is_none(tmp_path):
    make_conversations(tmp_path)
    dataset = read(tmp_path)
    both = ("list_for_cocktails", "one_for_cocktails")
    assert tuple(tool.name for tool in dataset.tools) == both
    assert "q" in dataset.tools[0].parameters["properties"]
    train, test = dataset.queries
    assert (train.split, test.split) == ("train", "test")
    assert train.query.startswith("Which cocktails are there?")
    assert train.tools == both
    assert train.explanation.splitlines() == [
        "Call list_for_cocktails First all.",
        "Call one_for_cocktails",
    ]


@pytest.mark.parametrize("row", [{"id": "x"}, "text"])
def test_a_broken_conversation_is_named_by_its_place(tmp_path, row):
    make_conversations(tmp_path)
    file = tmp_path / "toolllama_G123_dfs_train.json"
    file.write_text(json.dumps([*json.loads(file.read_text()), row]))
    with pytest.raises(InputError, match=r"dfs_train.json, /1: not a conversation"):
        read(tmp_path)


def test_of_a_conversation_that_stands_there_step_by_step_the_longest_counts(tmp_path):
    make_conversations(tmp_path)
    whole = read(tmp_path)
    for file in tmp_path.glob("*.json"):
        [row] = json.loads(file.read_text())
        turns = row["conversations"]
        steps = [n for n, turn in enumerate(turns, 1) if turn["from"] == "assistant"]
        rows = [
            {"id": f"Step {number}: x", "conversations": turns[:end]}
            for number, end in enumerate(steps, 1)
        ]
        file.write_text(json.dumps(rows))
    dataset = read(tmp_path)
    assert [(q.query, q.tools, q.explanation) for q in dataset.queries] == [
        (q.query, q.tools, q.explanation) for q in whole.queries
    ]
    told = "query: a conversation up to an earlier step"
    assert dataset.left_out.counts[told] == 2 * (len(steps) - 1)


def test_a_list_of_apis_may_hold_others_and_a_broken_one_is_counted(tmp_path):
    make_conversations(tmp_path)
    file = tmp_path / "toolllama_G123_dfs_train.json"
    text = file.read_text().replace("All of them.", "Such as [{}] and [{1: 2}].")
    broken = json.loads(text)[0]
    broken["conversations"][0]["value"] = "the following APIs: [{import os}]"
    file.write_text(json.dumps([*json.loads(text), broken]))
    dataset = read(tmp_path)
    assert dataset.tools[0].name == "list_for_cocktails"
    assert "[{1: 2}]" in (dataset.tools[0].summary + dataset.tools[0].description)
    assert dataset.left_out.counts["query: its list of APIs can't be read"] == 1
