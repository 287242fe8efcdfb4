"""What is done with a finished run: searches, figures of other files, exports."""

import json
from pathlib import Path

from tests.commands.conftest import BY_RULES
from tests.commands.in_process import do, toolbank
from tests.world import write_lines, write_recipe


def test_search_prints_tools_and_writes_a_file_of_hits(finished):
    done = toolbank("search", "runs/mine", "middle value of my data", cwd=finished)
    assert "statistics.median" in done.stdout
    asked = {"a": "middle value", "b": "standard deviation"}
    rows = [{"id": name, "query": query} for name, query in asked.items()]
    write_lines(finished / "asked.jsonl", rows)
    do(
        finished,
        *("search", "runs/mine", "--queries", "asked.jsonl", "--k", "3"),
        *("--retriever", "bm25", "--out", "hits.jsonl"),
    )
    hits = [json.loads(line) for line in (finished / "hits.jsonl").open()]
    assert [hit["id"] for hit in hits] == ["a", "b"]
    assert all(len(hit["tools"]) == len(hit["scores"]) == 3 for hit in hits)


def test_evaluate_takes_any_labelled_file_and_reports_strange_names(finished):
    row = {"query": "middle value", "tools": ["statistics.median", "no.such"]}
    write_lines(finished / "asked.jsonl", [row])
    done = do(
        finished, *("evaluate", "runs/mine", "--on", "asked.jsonl", "--out", "m.json")
    )
    assert "no.such" in done.stdout
    records = json.loads((finished / "m.json").read_text())
    assert {record["set"] for record in records} == {"asked"}
    every = do(finished, "evaluate", "runs/mine", "--on", "asked.jsonl", "--all")
    for said in (done.stdout, every.stdout):
        assert "asked (n = 1)" in said and "test" not in said


def test_a_moved_run_is_evaluated_on_the_files_that_are_left(tmp_path):
    asked = '{"query": "middle value", "tools": ["statistics.median"]}\n'
    for name in ("asked", "gone"):
        (tmp_path / f"{name}.jsonl").write_text(asked)
    with Path(write_recipe(tmp_path, **BY_RULES)).open("a") as file:
        file.write("evaluate: {on: [asked.jsonl, gone.jsonl]}\n")
    do(tmp_path, "run", "mine.yaml")
    (tmp_path / "gone.jsonl").unlink()
    (tmp_path / "runs" / "mine").rename(tmp_path / "moved")
    done = do(tmp_path, "evaluate", "moved")
    assert "asked (n = 1)" in done.stdout
    assert "gone.jsonl: not there, and so not evaluated on" in done.stdout
    do(tmp_path, "search", "moved", "median")
    assert "gone.jsonl" in do(tmp_path, "run", "moved", code=2).stderr
