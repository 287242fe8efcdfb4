"""Whole runs by batch files and by a hosted Batch API, against the same replies from an endpoint."""

import json
import os
import re
import signal
import sqlite3
import threading
import time
from collections import Counter

import pytest

from tests.requests.write.writing import count_replies, write_by
from tests.servers.batch import BatchServer, answer_file
from tests.servers.chat import Answer, ChatServer
from tests.world import adds_up, drafted, good, sentence, write_recipe
from toolbank.commands.preview import preview_attempts
from toolbank.llm.engines.batch import hosted
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import ToolbankError


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(hosted, "_LONGEST_WAIT", 0.05)


def numbered(call):
    """A number that is the prompt's own, so that a reply doesn't hang on the order of calls."""
    return sum(map(ord, call.prompt)) % 9973


def written(call):
    """What a model would say; some attempts are declined, some rejected."""
    if not call.asks_polish and numbered(call) % 5 == 0:
        return Answer.text("I had rather write a poem.")
    return good(call)


def run(folder, engine, url="https://api.example.com/v1", **settings):
    defaults = {"queries": 12, "max_outage": 0, "engine": engine}
    return write_by(url, folder, **{**defaults, **settings})


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
    """The queries without the name of their engine."""
    rows = [query.model_dump() for query in made.value.queries]
    return [row | {"provenance": row["provenance"] | {"engine": ""}} for row in rows]


@pytest.fixture(scope="module")
def by_endpoint(tmp_path_factory):
    with ChatServer(written) as server:
        return run(tmp_path_factory.mktemp("endpoint"), "openai", server.url)


def test_rounds_by_hand_give_the_bank_that_an_endpoint_gives(tmp_path, by_endpoint):
    made, messages = by_hand(tmp_path, written)
    assert queries(made) == queries(by_endpoint)
    assert made.value.counts == by_endpoint.value.counts
    assert made.value.counts["rejected"]
    # Writes; polishes of what was good, and writes to make up for what wasn't; and so on.
    kinds = [re.findall(r"round-\d+-(\w+)-\d+\.jsonl  ", one) for one in messages]
    assert kinds[:2] == [["write"], ["polish", "write"]]
    assert len(made.value.queries) == 12


def submit(folder, on_create=lambda batch: None, options=(), **settings):
    options = {"submit": True, **dict(options)}
    with BatchServer(written, on_create=on_create) as server:
        return run(folder, "batch", server.url, options=options, **settings)


def test_a_hosted_batch_gives_the_bank_that_an_endpoint_gives(tmp_path, by_endpoint):
    made = submit(tmp_path)
    assert not (made.waiting or made.lacks)
    assert queries(made) == queries(by_endpoint)


def test_replies_of_an_endpoint_serve_a_batch_and_vice_versa(tmp_path, by_endpoint):
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


def test_failed_replies_cost_rounds_and_change_nothing(tmp_path, by_endpoint):
    seen = Counter()
    page = json.dumps({"page": "<html>"}).encode()
    faults = {0: None, 1: Answer.error(503), 2: Answer(body=page)}

    def script(call):
        seen[call.prompt] += 1
        fault = (numbered(call) + seen[call.prompt]) % 7
        if seen[call.prompt] <= 2 and fault in faults:
            return faults[fault]
        return written(call)

    made, messages = by_hand(tmp_path, script)
    assert queries(made) == queries(by_endpoint)
    assert made.value.counts["failed"] == {}
    assert len(messages) > 3


def endless(batch):
    batch.polls = 10**9


def test_an_interrupt_does_not_wait_for_a_batch_that_takes_a_day(tmp_path, by_endpoint):
    with BatchServer(written, on_create=endless) as server:
        asked = threading.Event()

        def interrupt(number, method, path):
            if "/batches/" in path and not asked.is_set():
                asked.set()
                os.kill(os.getpid(), signal.SIGINT)

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
    path = write_recipe(tmp_path, engine="batch", model="m")
    shown = list(preview_attempts(load_recipe(path).recipe, tmp_path / "out", 2))
    assert len(shown) == 2
    assert "You know tools inside out" in shown[0]
    assert "--set generate.engine=openai" in shown[1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("engine", ["openai", "batch", "vllm", "recorded", "rules"])
def test_a_preview_of_prompts_alone_shows_what_is_sent(tmp_path, engine, monkeypatch):
    """Without a key, a package or a permission."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    replies = tmp_path / "replies.jsonl"
    shown = {}
    with ChatServer(good) as server:
        for name in (engine, "openai"):
            own = {"replies": str(replies)} if name == "recorded" else {}
            path = write_recipe(tmp_path, engine=name, model="m", **own)
            recipe = load_recipe(path, [f"generate.base_url={server.url}"]).recipe
            out = tmp_path / "out"
            shown[name] = [*preview_attempts(recipe, out, 2, prompts_only=True)]
        assert not server.calls
        write, other, polish = (text.rpartition(">>> ")[0] for text in shown[engine])
        assert "You know tools inside out" in write != other
        assert "# Draft" in polish
        expected = [text.rpartition(">>> ")[0] for text in shown["openai"]]
        assert [write, other, polish] == expected
        [*preview_attempts(recipe, out, 2)]
        sent = [call.prompt for call in server.calls if not call.asks_polish]
        assert all(prompt.split("# Choosing")[0] in write + other for prompt in sent)
    assert not out.exists()


def count_sent(folder):
    """The requests in all files."""
    files = (folder / "batch").glob("round-???-*-???.jsonl")
    return sum(len(path.read_text().splitlines()) for path in files)


def test_a_call_counts_once_where_it_is_put_into_a_file(tmp_path):
    whole = submit(tmp_path / "whole")
    calls = count_sent(tmp_path / "whole")
    made = submit(tmp_path / "bounded", budget={"calls": calls})
    assert not made.lacks
    assert list(made.value.queries) == list(whole.value.queries)


def numbered_tools(call):
    """As `written`, with the number of tools that a prompt requests."""
    number = re.search(r"exactly (\d+) that", call.prompt)
    if number is None or numbered(call) % 5 == 0:
        return written(call)
    tools = call.offered[: int(number[1])]
    return Answer.json(drafted(tools, sentence(call.prompt)))


@pytest.mark.parametrize("shares", [None, {2: 0.5, 3: 0.3, 4: 0.2}])
def test_surplus_requests_save_rounds_and_change_nothing(tmp_path, shares):
    """Without any, each round makes up for the losses of the one before."""
    settings = {"queries": 60, "tools_per_query": shares}
    made, messages = by_hand(tmp_path / "batch", numbered_tools, **settings)
    with ChatServer(numbered_tools) as server:
        expected = run(tmp_path / "endpoint", "openai", server.url, **settings)
        needed = len(server.calls)
    assert queries(made) == queries(expected)
    assert made.value.counts == expected.value.counts
    assert len(queries(made)) == 60
    assert len(messages) <= 3
    assert needed < count_sent(tmp_path / "batch") < 1.5 * needed


def test_surplus_requests_spend_no_call_that_the_queries_need(tmp_path):
    """A budget for 12 attempts has no room for more, and is not spent before they are."""
    made, _ = by_hand(tmp_path, good, budget={"calls": 24}, queries=12)
    assert count_sent(tmp_path) == 24
    assert len(made.value.queries) == 12
    assert not (made.ended_early or made.lacks)


@pytest.mark.parametrize("calls", [15, 20, 24])
def test_a_spent_budget_of_calls_bounds_a_round_whose_replies_are_read(tmp_path, calls):
    made = submit(tmp_path, budget={"calls": calls})
    count = count_sent(tmp_path)
    assert calls - 1 <= count <= calls
    assert made.value.queries
    assert made.lacks
    assert any(f"budget of {calls} calls" in problem for problem in made.problems)
    again = submit(tmp_path, budget={"calls": calls})
    assert count_sent(tmp_path) == count
    assert list(again.value.queries) == list(made.value.queries)


def test_by_hand_a_budget_of_calls_holds_over_all_commands(tmp_path):
    made, _ = by_hand(tmp_path, written, budget={"calls": 20})
    assert 19 <= count_sent(tmp_path) <= 20
    assert made.value.queries


@pytest.mark.parametrize(
    "budget", [{"tokens": 8000}, {"dollars": 0.02}], ids=["tokens", "dollars"]
)
def test_tokens_and_dollars_bound_a_round_before_a_reply_is_counted(tmp_path, budget):
    price = {"input": 1, "output": 10}
    made = run(tmp_path, "batch", queries=500, budget=budget, price=price)
    assert made.waiting
    assert 0 < count_sent(tmp_path) < 50
    assert "is spent" in made.problems[0]


def test_rates_do_not_slow_the_writing_of_files(tmp_path):
    """At one a minute, 12 requests would take eleven minutes."""
    begun = time.monotonic()
    made = run(tmp_path, "batch", rpm=1, tpm=1)
    assert made.waiting
    assert time.monotonic() - begun < 60


def test_the_minutes_of_a_command_end_the_wait_for_a_batch(tmp_path):
    with pytest.raises(ToolbankError, match=r"budget of 0\.005 minutes"):
        submit(tmp_path, endless, budget={"minutes": 0.005})


@pytest.mark.slow
def test_what_was_fetched_before_the_minutes_were_over_is_read(tmp_path):
    def slow(batch):
        batch.polls = 1 if batch.id == "batch_0" else 10**9

    with pytest.raises(ToolbankError, match=r"budget of 0\.1 minutes"):
        submit(tmp_path, slow, {"max_requests": 6}, budget={"minutes": 0.1})
    assert count_replies(tmp_path) == 6


def test_a_request_that_failed_for_good_is_journaled_once(tmp_path):
    """Each command reads its file anew."""

    def script(call):
        refused = not call.asks_polish and numbered(call) % 3 == 1
        return None if refused else written(call)

    made, _ = by_hand(tmp_path, script, retries=0)
    assert adds_up(made.value.counts)
    assert made.value.counts["failed"].keys() <= {"batch-expired", "no-reply"}
    failed = sum(made.value.counts["failed"].values())
    run(tmp_path, "batch", retries=0)
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        rows = connection.execute("SELECT count(*), count(DISTINCT key) FROM failures")
        journaled, keys = rows.fetchone()
    # Attempts beyond the last query may have failed, too.
    assert journaled == keys >= failed > 0
