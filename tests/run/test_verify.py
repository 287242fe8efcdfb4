"""The verification of a run: a stage of its own, and what other stages and commands make of it."""

import json
from collections import Counter

import pytest

from tests.requests.verify.test_verify import shown
from tests.servers.batch import answer_file
from tests.servers.chat import Answer, ChatServer
from tests.world import good, write_recipe
from toolbank.bank.bank import Bank, read_labels
from toolbank.commands.show import show_one
from toolbank.evaluation.figures import read_figures
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.files import read_json


def grader(call):
    """Needs the last offered tool by name alone; to the first test request nobody has an answer."""
    if "# How to grade" not in call.prompt:
        return good(call)
    first, last = (sorted(shown(call)[1])[n] for n in (0, -1))
    return Answer.json(
        {
            "needed": [{"tool": last, "why": "the last"}],
            "alternatives": [{"tool": first, "for": last, "why": "the first"}],
            "aside": "",
        }
    )


@pytest.fixture(scope="module")
def server():
    with ChatServer(grader) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("verified")


@pytest.fixture(scope="module")
def recipe(folder, server):
    """Loads a recipe whose queries the rules write and a model verifies; or with changes."""
    path = write_recipe(folder, engine="rules", queries=20)
    by_model = (
        f"verify={{engine: openai, base_url: '{server.url}', model: m, candidates: 3}}",
        "split.test=0.2",
        "retrievers=[{type: bm25, requests: true}]",
    )
    return lambda *settings: load_recipe(path, [*by_model, *settings])


@pytest.fixture(scope="module")
def out(recipe, folder):
    out = folder / "run"
    run_recipe(recipe(), out)
    return out


def test_it_changes_no_query(recipe, server, out, folder):
    other = folder / "plain"
    result = run_recipe(recipe("verify=null"), other, until="judge")
    assert "verify" not in result.did
    assert not list((other / "bank").glob("labels*"))
    queries = [(run / "bank/queries.parquet").read_bytes() for run in (out, other)]
    assert queries[0] == queries[1]
    bank = Bank.load(out / "bank")
    assert {label.query for label in bank.labels} == {q.id for q in bank.queries}
    assert read_json(out / "verify.json")["agreement"]["requests"] == 20
    asked = len(server.calls)
    assert run_recipe(recipe(), out).did == ()
    assert len(server.calls) == asked


def test_the_test_is_evaluated_by_first_and_by_verified_labels(out):
    sizes = {one.set: one.n for one in read_figures(out / "metrics.json")}
    assert sizes["test"] == sizes["test-verified"] == 4


def test_retrievers_learn_from_verified_labels_or_from_the_first(recipe, out):
    documents = out / "models" / "bm25" / "documents.json"
    verified = documents.read_bytes()
    result = run_recipe(recipe("labels=first"), out)
    assert result.did == ("retrievers/bm25", "evaluate", "report")
    assert documents.read_bytes() != verified
    run_recipe(recipe(), out)
    assert documents.read_bytes() == verified


def test_a_request_is_shown_with_its_labels_and_what_was_asked(out):
    bank = Bank.load(out / "bank")
    query = bank.queries[0]
    [needed] = bank.verified[query.id].needed
    said = show_one(out, query.id)
    assert f"labels of {query.id}" in said
    assert f"needed: {needed} or " in said
    assert "# How to grade" in said


def test_what_it_will_take_is_planned(recipe, folder):
    said = " ".join(describe_plan(recipe(), folder / "planned").split())
    assert "Verification: the labels of 20 queries, by m at http://127.0.0.1" in said
    assert "20: one a query, with up to 3 tools in its prompt" in said
    assert "0 to 20 in a second call, with up to 10 further tools" in said
    assert "a second call about" in said


PANEL = "verify.graders=[{model: one}, {model: two}, {model: three}]"


def test_graders_a_sample_and_the_hole_check_are_planned(recipe, server, tmp_path):
    more = "verify.sample=10", "verify.holes=3", "verify.second_call=0"
    said = " ".join(describe_plan(recipe(*more, PANEL), tmp_path / "out").split())
    for name in ("one", "two"):
        assert f"Verification: the labels of 10 queries, by {name} at " in said
    assert "those of 10 queries on which two graders disagree, by three at " in said
    assert said.count("calls 10: one a query") == 2
    assert "calls 0 to 10: one a query" in said
    assert said.count("0 to 3 in the hole check") == 1


def test_a_budget_and_the_price_count_all_graders(recipe, server, tmp_path):
    prices = (
        "verify.graders=[{model: one, price: {input: 1000, output: 1000}},"
        " {model: two, price: {input: 1000, output: 1000}}]"
    )
    settings = prices, "verify.second_call=0", "verify.budget.calls=30"
    result = run_recipe(recipe(*settings), tmp_path / "out", until="verify")
    assert result.lacks
    found = read_json(tmp_path / "out" / "verify.json")
    calls = found["calls"]["verify"]
    assert calls["replies"] == 30
    assert calls["dollars"] > 0
    assert [one["requests"] for one in found["panel"]] == [20, 10]


def test_the_replies_that_have_come_are_used_and_the_next_run_adds_the_rest(
    recipe, folder
):
    out = folder / "batched"
    by_batch = "verify={engine: batch, model: m, candidates: 3, second_call: 0}"
    batch = recipe(by_batch)
    assert run_recipe(batch, out, until="verify").waiting
    assert not (out / "verify.json").exists()
    [file] = (out / "batch").glob("round-001-*.jsonl")
    answers = answer_file(file.read_text(), grader).splitlines(keepends=True)
    file.with_name("some.jsonl").write_text("".join(answers[:15]))
    waiting = run_recipe(batch, out, until="verify")
    graded = {label.query for label in read_labels(out / "bank" / "labels.parquet")}
    assert len(graded) == 15
    assert read_json(out / "verify.json")["verified"]["count"] == 15
    assert waiting.waiting
    assert "verify" in waiting.todo
    for path in (out / "batch").glob("round-002-*.jsonl"):
        answer = answer_file(path.read_text(), grader)
        path.with_name("rest.jsonl").write_text(answer)
    done = run_recipe(batch, out, until="verify")
    assert not done.waiting
    assert "verify" not in done.todo
    assert read_json(out / "verify.json")["verified"]["count"] == 20


def test_the_batches_of_two_graders_go_out_in_one_round(recipe, folder):
    out = folder / "two-batches"
    by_batch = (
        "verify={engine: batch, candidates: 3, second_call: 0,"
        " graders: [{model: one}, {model: two}]}"
    )
    batch = recipe(by_batch)
    result = run_recipe(batch, out, until="verify")
    files = list((out / "batch").glob("round-*.jsonl"))
    assert all(str(file) in result.waiting for file in files)
    bodies = [
        json.loads(line)["body"]
        for file in files
        for line in file.read_text().splitlines()
    ]
    models = Counter(body["model"] for body in bodies)
    assert models == {"one": 20, "two": 20}
    assert f"waits for the replies to {out}" in describe_plan(batch, out)
    for file in files:
        answer = answer_file(file.read_text(), grader)
        file.with_name(f"{file.stem}-replies.jsonl").write_text(answer)
    assert not run_recipe(batch, out, until="verify").waiting
    assert read_json(out / "verify.json")["disagreements"] == {"requests": 0, "of": 20}
