"""Whole runs by batch files and by a hosted Batch API, against the same replies from an endpoint."""

import json
import os
import re
import signal
import threading

import pytest

from tests.commands.in_process import toolbank
from tests.servers.batch import BatchServer, answer_file
from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, adds_up, good
from toolbank.commands.preview import preview_attempts
from toolbank.llm.engines.batch import hosted
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import generate
from toolbank.run.recipe import Recipe, load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import ToolbankError


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)


def numbered(call):
    """A number that is the prompt's own, so that a reply doesn't hang on the order of calls."""
    return sum(map(ord, call.prompt)) % 9973


def written(call):
    """What a model would say; some attempts are declined, some rejected."""
    if call.asks_polish:
        return good(call)
    number = numbered(call)
    if number % 5 == 0:
        return Answer.text("I had rather write a poem.")
    return good(call)


def run(folder, engine, url="https://api.example.com/v1", **settings):
    config = GenerateConfig(
        engine=engine,
        base_url=url,
        model="m",
        **{"queries": 12, "retries": 2, "max_outage": 0, **settings},
    )
    with Journal(folder / "journal.sqlite") as journal:
        return generate(SHOP, config, domain="shop", seed=0, journal=journal)


def by_hand(folder, script, **settings):
    """Answer every file that has no output, and run again, until the bank is done."""
    messages = []
    for _ in range(40):
        made = run(folder, "batch", **settings)
        if not made.waiting:
            return made, messages
        messages.append(made.waiting)
        assert made.lacks
        files = sorted((folder / "batch").glob("round-???-*-???.jsonl"))
        for path in files:
            output = path.with_name(f"batch_{path.stem}_output.jsonl")
            if not output.exists():
                output.write_text(answer_file(path.read_text(), script))
    raise AssertionError(messages[-1])


def queries(made):
    return [
        query.model_copy(
            update={"provenance": query.provenance.model_copy(update={"engine": ""})}
        )
        for query in made.value.queries
    ]


@pytest.fixture(scope="module")
def by_endpoint(tmp_path_factory):
    with ChatServer(written) as server:
        return run(tmp_path_factory.mktemp("endpoint"), "openai", server.url)


def test_rounds_by_hand_give_the_bank_that_an_endpoint_gives(tmp_path, by_endpoint):
    made, messages = by_hand(tmp_path, written)
    assert queries(made) == queries(by_endpoint)
    assert made.value.counts == by_endpoint.value.counts
    assert made.value.counts["rejected"]
    names = [re.findall(r"round-\d+-(\w+)-\d+\.jsonl  ", text) for text in messages]
    # Writes; polishes of what was good, and writes to make up for what wasn't; and so on.
    assert names[0] == ["write"]
    assert names[1] == ["polish", "write"]
    assert len(made.value.queries) == 12


def test_a_hosted_batch_gives_the_bank_that_an_endpoint_gives(tmp_path, by_endpoint):
    with BatchServer(written) as server:
        made = run(tmp_path, "batch", server.url, options={"submit": True})
    assert not made.waiting
    assert not made.lacks
    assert queries(made) == queries(by_endpoint)


def test_replies_of_an_endpoint_serve_a_batch_and_the_other_way_round(
    tmp_path, by_endpoint
):
    first, second = tmp_path / "first", tmp_path / "second"
    with ChatServer(written) as server:
        run(first, "openai", server.url)
        before = len(server.calls)
        made = run(first, "batch")
        assert queries(made) == queries(by_endpoint)
        assert not (first / "batch").exists()
        by_hand(second, written)
        made = run(second, "openai", server.url)
        assert len(server.calls) == before
    assert queries(made) == queries(by_endpoint)


def test_replies_that_fail_at_first_cost_rounds_and_change_nothing(
    tmp_path, by_endpoint
):
    seen = {}

    def script(call):
        seen[call.prompt] = seen.get(call.prompt, 0) + 1
        fault = (numbered(call) + seen[call.prompt]) % 7
        if seen[call.prompt] <= 2 and fault == 0:
            return None
        if seen[call.prompt] <= 2 and fault == 1:
            return Answer.error(503)
        if seen[call.prompt] <= 2 and fault == 2:
            return Answer.html()
        return written(call)

    def lines(call):
        answer = script(call)
        if answer is not None and answer.headers.get("Content-Type") == "text/html":
            return Answer(body=json.dumps({"page": answer.body.decode()}).encode())
        return answer

    made, messages = by_hand(tmp_path, lines)
    assert queries(made) == queries(by_endpoint)
    assert made.value.counts["failed"] == {}
    assert len(messages) > 3


def test_a_request_that_is_never_answered_ends_as_a_failed_attempt(tmp_path):
    def script(call):
        return (
            None if not call.asks_polish and numbered(call) % 3 == 1 else written(call)
        )

    made, _ = by_hand(tmp_path, script, retries=1)
    assert made.value.counts["failed"].keys() <= {"batch-expired", "no-reply"}
    assert made.value.counts["failed"]
    assert adds_up(made.value.counts)


def test_a_run_that_is_asked_again_too_early_says_the_same_and_writes_nothing(tmp_path):
    first = run(tmp_path, "batch")
    before = {path.name: path.read_bytes() for path in (tmp_path / "batch").iterdir()}
    again = run(tmp_path, "batch")
    assert first.message == again.message == "12 requests wait for their replies"
    assert "round-001-write-001.jsonl" in first.waiting
    assert "round-001-write-001.jsonl" in again.waiting
    after = {path.name: path.read_bytes() for path in (tmp_path / "batch").iterdir()}
    assert after == before


def test_a_batch_that_is_refused_fails_the_run(tmp_path):
    with (
        BatchServer(written, before=lambda *_: 402) as server,
        pytest.raises(ToolbankError, match="402"),
    ):
        run(tmp_path, "batch", server.url, options={"submit": True})


def test_an_interrupt_does_not_wait_for_a_batch_that_takes_a_day(
    tmp_path, by_endpoint, monkeypatch
):
    monkeypatch.setattr(hosted, "_LONGEST_WAIT", 0.05)

    def endless(batch):
        batch.polls = 10**9

    with BatchServer(written, on_create=endless) as server:
        asked = threading.Event()

        def interrupt(number, method, path):
            if "/batches/" in path and not asked.is_set():
                asked.set()
                os.kill(os.getpid(), signal.SIGINT)
            return

        server.after = interrupt
        with pytest.raises(ToolbankError, match="stopped in generate"):
            run(tmp_path, "batch", server.url, options={"submit": True})
        for batch in server.batches.values():
            batch.polls = 1
        server.on_create = lambda batch: None
        made = run(tmp_path, "batch", server.url, options={"submit": True})
        assert queries(made) == queries(by_endpoint)
        first = [b for b in server.batches.values() if "001-write" in str(b.metadata)]
        assert len(first) == 1


def test_a_preview_shows_the_prompts_and_how_to_see_replies(tmp_path):
    recipe = Recipe.model_validate(
        {
            "name": "figures",
            "sources": [{"type": "python", "package": "statistics"}],
            "generate": {"engine": "batch", "model": "m"},
        }
    )
    shown = list(preview_attempts(recipe, tmp_path, 2))
    assert len(shown) == 2
    assert "You know statistics inside out" in shown[0]
    assert "--set generate.engine=openai" in shown[1]
    assert not (tmp_path / "batch").exists()


def test_the_command_ends_well_with_what_to_do_and_goes_on_when_that_is_done(tmp_path):
    recipe = tmp_path / "figures.yaml"
    recipe.write_text(
        "{name: figures, sources: [{type: python, package: statistics}], "
        "generate: {engine: batch, model: m, queries: 3, max_attempts: 6}}"
    )
    out = tmp_path / "run"
    first = toolbank("generate", recipe, "--out", out, cwd=tmp_path)
    assert first.returncode == 3, first.stderr
    assert str(out / "batch" / "round-001-write-001.jsonl") in first.stdout
    assert f"toolbank run {out}" in first.stdout
    assert "wait for their replies" in first.stderr
    assert "0 queries" not in first.stderr
    queries = out / "bank" / "queries.parquet"
    for _ in range(6):
        assert not queries.exists()
        for path in (out / "batch").glob("round-???-*-???.jsonl"):
            output = path.with_suffix(".output.jsonl")
            if not output.exists():
                output.write_text(answer_file(path.read_text(), written))
        if not run_recipe(load_recipe(str(out)), out, until="generate").waiting:
            break
    assert queries.is_file()
