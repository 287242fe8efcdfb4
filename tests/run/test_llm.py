"""Runs whose last stage is a language model: what is asked, paid, kept and told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from selectolax.lexbor import LexborHTMLParser

from tests.commands.in_process import do
from tests.retrievers.llm.reranker import answer_by_words, asked
from tests.run.test_dataset import NAMES, write_recipe
from tests.servers.batch import BatchServer, answer_file
from tests.servers.chat import Answer, ChatServer
from tests.servers.named import name_host
from tests.world import write_lines
from toolbank.commands.show import show_outcomes
from toolbank.llm.engines.batch import hosted
from toolbank.llm.journal import Journal
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.search.run_search import load
from toolbank.system.errors import InputError, ToolbankError

KEY = "sk-test-5f1c9a2b77"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(answer_by_words) as server:
        yield server


@pytest.fixture
def make(tmp_path):
    def make(url, **settings):
        path = Path(write_recipe(tmp_path))
        tools = [{"name": n, "description": f"Does {n}, please."} for n in NAMES]
        write_lines(tmp_path / "data" / "tools.jsonl", tools)
        rows = [
            {"query": f"natural, please {n} {NAMES[n]}", "tools": [NAMES[n]]}
            for n in (0, 1)
        ]
        write_lines(tmp_path / "natural.jsonl", rows)
        content = yaml.safe_load(path.read_text())
        content["evaluate"]["on"] = ["natural.jsonl"]
        model = {"base_url": url, "model": "m", "replies": "replies.sqlite", **settings}
        content["retrievers"].append({"type": "llm", "first_stage": "bm25", **model})
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return make


def run(recipe, out, *settings):
    return run_recipe(load_recipe(recipe, settings), out)


def figures(out):
    return (out / "metrics.json").read_bytes()


def replies(out):
    with Journal(out / "replies.sqlite") as journal:
        return len(journal)


def test_only_evaluated_requests_are_asked(make, server, tmp_path):
    recipe = make(server.url)
    told = describe_result(run(recipe, tmp_path / "out"), everything=True)
    # 3 queries of validation, 10 of test, 2 of the file; 27 train.
    assert len(server.calls) == 15
    assert sum(asked(call).startswith("natural") for call in server.calls) == 2
    assert "llm" in told
    assert "natural (n = 2)" in told
    # What an earlier version kept next to the recipe.
    (tmp_path / "out" / "replies.sqlite").rename(tmp_path / "replies.sqlite")
    again = run(recipe, tmp_path / "other")
    assert len(server.calls) == 15
    assert figures(again.folder.path) == figures(tmp_path / "out")


def test_a_new_request_is_asked_live(make, server, tmp_path):
    run(make(server.url), tmp_path / "out")
    served = len(server.calls)
    finder = load(tmp_path / "out", "llm")
    server.script = lambda _: Answer.json({"tools": []})
    finder.search("mean of it, please", k=3)
    finder.search("mean of it, please", k=5)
    assert len(server.calls) == served + 1


def test_a_plan_counts_calls_tokens_and_money_and_calls_nothing(make, server, tmp_path):
    recipe = make(server.url, price={"input": 1000, "output": 1000})
    told = " ".join(describe_plan(load_recipe(recipe), tmp_path / "out").split())
    assert "llm: at most 15 requests to m: one for each query of validation" in told
    assert "tokens about" in told
    assert "cost about $" in told
    assert not server.calls


def test_what_its_calls_took_is_told_by_the_report_and_by_show(make, server, tmp_path):
    out = tmp_path / "out"
    recipe = make(server.url)
    run(recipe, out)
    shown = show_outcomes(out)
    [row] = [line for line in shown.splitlines() if line.startswith("llm ")]
    label, answered, sent, got, cost, failed = row.split()
    assert (answered, cost, failed) == ("15", "unknown", "none")
    page = (out / "report.html").read_text()
    table = LexborHTMLParser(page).css_first("table.calls").text(separator=" ")
    row = " ".join(table.split()).partition("longest ")[2]
    assert row.startswith(f"retriever {label} 15 {sent} {got} ")
    assert "<code>retrievers.llm.price</code>" in page
    priced = load_recipe(recipe, ["retrievers.llm.price={input: 1000, output: 1000}"])
    assert run_recipe(priced, out).did == ("report",)
    assert len(server.calls) == 15
    dollars = (int(sent.replace(",", "")) + int(got.replace(",", ""))) / 1000
    assert f"${dollars:,.4f}" in show_outcomes(out)


def test_no_key_reaches_a_file_or_a_host_that_was_not_named(make, server, tmp_path):
    recipe = make("https://api.example.invalid/v1")
    with pytest.raises(InputError, match=r"OPENAI_API_KEY=.* https://api\.example"):
        run(recipe, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    typed = f"retrievers.llm.base_url={server.url}"
    name_host(server.url)
    server.script = lambda _: Answer.text(f"no {KEY} here")
    run(recipe, tmp_path / "out", typed)
    keys = {call.headers.get("authorization") for call in server.calls}
    assert keys == {f"Bearer {KEY}"}
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_a_raised_budget_continues_the_run(make, server, tmp_path):
    recipe = make(server.url, budget={"calls": 6}, concurrency=1)
    with pytest.raises(ToolbankError) as told:
        run(recipe, tmp_path / "out")
    assert "9 of 15 requests were not answered" in str(told.value)
    assert "--set retrievers.llm.budget.calls=12" in str(told.value)
    assert (len(server.calls), replies(tmp_path / "out")) == (6, 6)
    assert not (tmp_path / "out" / "metrics.json").exists()
    result = run(recipe, tmp_path / "out", "retrievers.llm.budget.calls=15")
    assert result.did == ("evaluate", "report")
    assert len(server.calls) == 15


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_comes_out_the_same(make, server, tmp_path, end):
    recipe = make(server.url, concurrency=1)
    undisturbed = run(recipe, tmp_path / "undisturbed").folder.path
    server.calls.clear()

    def slowly(call):
        time.sleep(0.3)
        return answer_by_words(call)

    server.script = slowly
    out = tmp_path / "out"
    command = [sys.executable, "-m", "toolbank", "run", recipe, "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        while len(server.calls) < 5:
            time.sleep(0.02)
        os.kill(child.pid, end)
        _, told = child.communicate(timeout=60)
    assert child.returncode in (1, -signal.SIGKILL)
    kept = replies(out)
    assert kept >= 4
    if end == signal.SIGINT:
        assert "Traceback" not in told
        assert f"{15 - kept} of 15 requests were not answered" in " ".join(told.split())
        assert kept == len(server.calls)
    server.script = answer_by_words
    before = len(server.calls)
    run(recipe, out)
    assert len(server.calls) - before == 15 - kept
    assert figures(out) == figures(undisturbed)


def test_a_hosted_batch_has_all_of_them_in_one(make, server, tmp_path, monkeypatch):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    endpoint = run(make(server.url), tmp_path / "endpoint").folder.path
    with BatchServer(answer_by_words) as batches:
        name_host(batches.url)
        settings = ("engine=batch", f"base_url={batches.url}", "options.submit=true")
        hosted_batch = [f"retrievers.llm.{setting}" for setting in settings]
        run(str(tmp_path / "theirs.yaml"), tmp_path / "out", *hosted_batch)
        assert len(batches.batches) == 1
    assert figures(tmp_path / "out") == figures(endpoint)


def test_commands_that_wait_for_a_batch_end_with_3(make, server, tmp_path):
    recipe = make(server.url, engine="batch")
    first = do(tmp_path, "run", recipe, "--out", "out", code=3)
    (path,) = (tmp_path / "out" / "batch").glob("round-001-rank-001.jsonl")
    assert str(path) in first.stdout
    assert len(path.read_text().splitlines()) == 15
    waiting = run(recipe, tmp_path / "out")
    assert str(path) in waiting.waiting
    for words in (
        "search out please --retriever llm",
        "evaluate out --on natural.jsonl",
    ):
        asked = do(tmp_path, *words.split(), code=3)
        assert "batch/round-" in asked.stderr
    do(tmp_path, "plan", "out")
    output = answer_file(path.read_text(), answer_by_words)
    path.with_suffix(".output.jsonl").write_text(output)
    assert not run(recipe, tmp_path / "out").todo
    assert not server.calls


@pytest.mark.parametrize("first", ["search", "run"])
def test_a_run_of_0_7_0_keeps_its_search_replies(make, server, tmp_path, first):
    out, moved = tmp_path / "out", tmp_path / "moved"
    run(make(server.url), out)
    assert len(server.calls) == 15
    # There the recipe that a run left had the whole path of a file next to the user's recipe.
    (out / "replies.sqlite").rename(tmp_path / "hers.sqlite")
    left = yaml.safe_load((out / "recipe.yaml").read_text())
    left["retrievers"][-1]["replies"] = str(tmp_path / "hers.sqlite")
    (out / "recipe.yaml").write_text("# Resolved from x\n" + yaml.safe_dump(left))
    before = (tmp_path / "hers.sqlite").read_bytes()
    if first == "search":
        load(out, "llm").search(f"natural, please 0 {NAMES[0]}", k=3)
    else:
        assert not run_recipe(load_recipe(str(out)), out, start="evaluate").todo
    run(str(out), out)
    out.rename(moved)
    load(moved, "llm").search(f"natural, please 0 {NAMES[0]}", k=3)
    assert len(server.calls) == 15
    assert (tmp_path / "hers.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", ["metrics.json", "models/x.sqlite", "journal.sqlite"])
def test_a_recipe_writes_into_no_file_of_its_run(make, server, tmp_path, name):
    with pytest.raises(InputError, match="the run itself writes"):
        run(make(server.url, replies=name), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_of_a_sweep_have_a_request_ranked_once(make, server, tmp_path):
    path = make(server.url)
    do(tmp_path, "sweep", path, "--over", "evaluate.resamples=200,300")
    asked = [str(call.body) for call in server.calls]
    assert len(asked) == len(set(asked)) > 0
    runs = sorted((tmp_path / "runs").glob("*-sweep/resamples-*/replies.sqlite"))
    sizes = []
    for journal in runs:
        with Journal(journal, read_only=True) as replies:
            sizes.append(len(replies))
    assert sizes == [len(asked)] * 2
