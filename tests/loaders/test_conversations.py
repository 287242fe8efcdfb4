"""ToolBench's conversations, on a file made by hand."""

import json

import pytest

from tests.loaders.samples import config, make_conversations
from toolbank.loaders import DATASETS
from toolbank.system.errors import InputError

NAME = "toolbench-conversations"


def read(folder):
    return DATASETS.load(NAME).read(config(NAME, folder))


def test_each_assistant_turn_is_a_step_and_finish_is_none(tmp_path):
    make_conversations(tmp_path)
    dataset = read(tmp_path)
    assert [tool.name for tool in dataset.tools] == [
        "list_for_cocktails",
        "one_for_cocktails",
    ]
    assert "q" in dataset.tools[0].parameters["properties"]
    train, test = dataset.queries
    assert (train.split, test.split) == ("train", "test")
    assert train.query.startswith("Which cocktails are there?")
    assert train.tools == ("list_for_cocktails", "one_for_cocktails")
    assert train.explanation.splitlines() == [
        "Call list_for_cocktails First all.",
        "Call one_for_cocktails",
    ]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "x"},
        {"conversations": [{"from": "system", "value": "APIs: [{import os}]"}]},
        "text",
    ],
)
def test_a_broken_conversation_is_named_by_its_place(tmp_path, row):
    make_conversations(tmp_path)
    file = tmp_path / "toolllama_G123_dfs_train.json"
    file.write_text(json.dumps([*json.loads(file.read_text()), row]))
    with pytest.raises(InputError, match=r"dfs_train.json, /1: not a conversation"):
        read(tmp_path)
