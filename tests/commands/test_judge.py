"""`toolbank judge`: any two sets of requests."""

import pytest

from tests.commands.in_process import do
from tests.servers.chat import Answer, ChatServer
from tests.world import write_dataset
from toolbank.system.files import read_json


@pytest.fixture
def dataset(tmp_path):
    def make(name, queries):
        rows = [{"query": query, "tools": ["t0"], "split": "test"} for query in queries]
        write_dataset(tmp_path / name, ["t0", "t1", "t2"], rows)

    return make


def test_two_folders_of_data_are_compared_without_a_recipe(dataset, tmp_path):
    dataset("ours", [f"what came of {number}?" for number in range(6)])
    dataset("theirs", [f"sort {number}, then sum it, then save it" for number in "ab"])
    done = do(tmp_path, "judge", "ours", "--against", "theirs")
    assert "against theirs" in done.stdout
    assert "A heuristic, not a reader" in " ".join(done.stdout.split())
    judged = read_json(tmp_path / "runs/judge-ours/judge.json")
    assert (judged["n"], judged["against"]) == (2, "theirs")
    (line,) = (one for one in done.stdout.splitlines() if "naturalness " in one)
    assert line.split()[1:3] == ["2", "100.0"]


def test_a_judge_that_likes_what_it_is_shown_first_finds_ties_alone(dataset, tmp_path):
    dataset("ours", [f"ours {number}" for number in range(4)])
    dataset("theirs", [f"theirs {number}" for number in range(4)])
    with ChatServer(lambda call: Answer.json({"winner": "A"})) as server:
        model = f"judge={{engine: openai, base_url: '{server.url}', model: m}}"
        against = ("--against", "theirs", "--pairs", "3")
        command = ("judge", "ours", "--set", model, *against)
        do(tmp_path, *command)
        assert len(server.calls) == 3 * 2 * 3
        done = do(tmp_path, *command)
        assert len(server.calls) == 3 * 2 * 3
    lines = [one.split() for one in done.stdout.splitlines() if "fluency" in one]
    (cells,) = (one for one in lines if one[1] == "3")
    # n, wins with their interval, ties, losses with theirs, orders that agree, p.
    assert (cells[2], cells[6], cells[-2], cells[-1]) == ("0.0", "100.0", "0", "-")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ours", "--against", "nowhere"], "nowhere"),
        (["ours", "--against", "ours", "--pairs", "0"], "judge.pairs"),
        (["empty", "--against", "ours"], "not a dataset of a known format"),
        (["ours/queries.jsonl", "--against", "ours"], "Give it with --against"),
        (["ours", "--against", "ours", "--set", "judge.criteria=[]"], "criteria"),
    ],
)
def test_what_can_not_be_compared_is_named(dataset, tmp_path, arguments, told):
    dataset("ours", ["one", "two"])
    (tmp_path / "empty").mkdir()
    assert told in do(tmp_path, "judge", *arguments, code=2).stderr


def test_a_dataset_without_drafts_is_told_what_to_name(dataset, tmp_path):
    dataset("ours", ["one", "two"])
    done = do(tmp_path, "judge", "ours", "--set", "judge={}")
    assert "judge.against" in done.stderr
