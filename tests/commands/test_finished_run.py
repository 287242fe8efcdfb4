"""What is done with a finished run: searches, figures of other files, exports."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import BY_RULES
from tests.commands.in_process import do, toolbank
from tests.world import write_recipe


def test_a_run_folder_that_was_moved_can_still_be_searched_and_evaluated(tmp_path):
    asked = '{"query": "middle value", "tools": ["statistics.median"]}\n'
    (tmp_path / "asked.jsonl").write_text(asked)
    with Path(write_recipe(tmp_path, **BY_RULES)).open("a") as file:
        file.write("evaluate: {on: [asked.jsonl]}\n")
    do(tmp_path, "run", "mine.yaml")
    (tmp_path / "runs" / "mine").rename(tmp_path / "moved")
    (tmp_path / "asked.jsonl").rename(tmp_path / "other.jsonl")
    do(tmp_path, "search", "moved", "median")
    do(tmp_path, "evaluate", "moved", "--on", "other.jsonl")
    lost = do(tmp_path, "run", "moved", code=2)
    assert "asked.jsonl" in lost.stderr


def test_search_prints_tools_and_writes_a_file_of_hits(finished):
    done = toolbank("search", "runs/mine", "middle value of my data", cwd=finished)
    assert "statistics.median" in done.stdout
    (finished / "asked.jsonl").write_text(
        '{"id": "a", "query": "middle value"}\n{"id": "b", "query": "standard deviation"}\n'
    )
    do(
        finished,
        *("search", "runs/mine", "--queries", "asked.jsonl", "--k", "3"),
        *("--retriever", "bm25", "--out", "hits.jsonl"),
    )
    hits = [json.loads(line) for line in (finished / "hits.jsonl").open()]
    assert [hit["id"] for hit in hits] == ["a", "b"]
    assert all(len(hit["tools"]) == len(hit["scores"]) == 3 for hit in hits)


def test_evaluate_takes_any_labelled_file_and_reports_strange_names(finished):
    (finished / "asked.jsonl").write_text(
        '{"query": "middle value", "tools": ["statistics.median", "no.such"]}\n'
    )
    done = do(
        finished, *("evaluate", "runs/mine", "--on", "asked.jsonl", "--out", "m.json")
    )
    assert "no.such" in done.stdout
    records = json.loads((finished / "m.json").read_text())
    assert {record["set"] for record in records} == {"asked"}
    assert "asked (n = 1)" in done.stdout
    assert "test" not in done.stdout
    every = toolbank(
        "evaluate", "runs/mine", "--on", "asked.jsonl", "--all", cwd=finished
    )
    assert "asked (n = 1), in percent." in every.stdout
    assert "test" not in every.stdout


def test_evaluate_alone_takes_the_sets_of_the_recipe_and_says_which_are_gone(tmp_path):
    asked = '{"query": "middle value", "tools": ["statistics.median"]}\n'
    for name in ("asked", "gone"):
        (tmp_path / f"{name}.jsonl").write_text(asked)
    with Path(write_recipe(tmp_path, **BY_RULES)).open("a") as file:
        file.write("evaluate: {on: [asked.jsonl, gone.jsonl]}\n")
    do(tmp_path, "run", "mine.yaml")
    (tmp_path / "gone.jsonl").unlink()
    done = do(tmp_path, "evaluate", "runs/mine")
    assert "asked (n = 1)" in done.stdout
    assert "gone.jsonl: not there, and so not evaluated on" in done.stdout


@pytest.mark.parametrize("form", ["jsonl", "toolbank", "functions"])
def test_export_writes_a_folder(finished, form):
    do(finished, "export", "runs/mine", "--format", form, "--out", f"as-{form}")
    assert any((finished / f"as-{form}").iterdir())
