"""The whole loop against a real server, whose answers are good, or faults of every kind."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.requests.write.writing import write_by
from tests.servers.chat import Answer, ChatServer
from tests.servers.faults import FAULTS, FaultyScript, digest
from tests.servers.wire import WireServer
from tests.world import SHOP, good, good_reply
from toolbank.llm.accounts import describe_calls
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import ToolbankError

REJECTED = {
    *("too-large", "not-json", "content-filter", "cut-off", "empty", "wrong-schema"),
    *("tool-not-offered", "too-few-tools", "too-many-tools", "control-sign"),
}


def run(url, folder, **settings):
    defaults = {"queries": 10_000, "concurrency": 32, "retries": 5, "timeout": 2}
    return write_by(url, folder, **{**defaults, **settings})


def count(folder):
    """Replies and failed tries by reason, as the journal has them."""
    replies, failed = 0, Counter()
    with Journal(folder / "journal.sqlite") as journal:
        for usage in journal.usage():
            replies += usage.replies
            failed.update(usage.failed_tries)
    return replies, failed


def check_counts(made, attempts):
    counts = made.value.counts
    outcomes = Counter(row.outcome for row in made.value.attempts)
    assert [row.attempt for row in made.value.attempts] == list(range(attempts))
    assert counts["attempts"] == attempts
    assert counts["accepted"] == len(made.value.queries) == outcomes["accepted"]
    assert counts["declined"] == outcomes["declined"]
    for outcome in ("rejected", "failed"):
        assert sum(counts[outcome].values()) == outcomes[outcome]


def without_usage(call):
    """A good reply of an endpoint that does not report tokens."""
    answer = Answer.json(good_reply(call))
    content = {**json.loads(answer.body), "usage": None}
    return replace(answer, body=json.dumps(content).encode())


def silent(call):
    """No reply in time."""
    return replace(without_usage(call), delay=30)


@pytest.mark.parametrize("budget", [{"dollars": 0.05}, {"tokens": 20_000}])
def test_a_budget_ends_a_run_whose_endpoint_reports_no_tokens(tmp_path, budget):
    price = {"input": 1, "output": 10}
    with ChatServer(without_usage) as server:
        made = run(server.url, tmp_path, price=price, budget=budget)
        first = len(server.calls)
        assert 8 < first < 200
        assert "budget" in made.problems[0]
        assert "estimated" in made.problems[0]
        assert "estimated" in made.message
        again = run(server.url, tmp_path, price=price, budget=budget)
        assert len(server.calls) == first
        assert list(again.value.queries) == list(made.value.queries)
        more = {unit: 2 * bound for unit, bound in budget.items()}
        run(server.url, tmp_path, price=price, budget=more)
        assert first < len(server.calls) < 3 * first
    with Journal(tmp_path / "journal.sqlite") as journal:
        told = describe_calls(journal.usage(), GenerateConfig(model="m", price=price))
    assert all(one["estimated"] == one["replies"] for one in told.values())
    assert sum(one["dollars"] for one in told.values()) > 0.02


def test_tries_that_time_out_count_as_they_may_have_been_charged_for(tmp_path):
    with ChatServer(silent) as server, pytest.raises(ToolbankError, match="budget"):
        run(server.url, tmp_path, concurrency=2, timeout=0.2, budget={"tokens": 20_000})
    assert 3 < len(server.calls) < 30
    with Journal(tmp_path / "journal.sqlite") as journal:
        usage = journal.usage()
    assert sum(one.replies for one in usage) == 0
    assert sum(one.estimated for one in usage) > 2


@pytest.mark.parametrize("attempts", [170, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_faults_of_every_kind_lose_nothing_and_cost_nothing_twice(tmp_path, attempts):
    script = FaultyScript(good_reply, seed=4)
    with WireServer(script) as server:
        made = run(server.url, tmp_path, max_attempts=attempts, retries=1)
        check_counts(made, attempts)
        assert set(script.sent) == set(FAULTS)
        assert made.value.counts["accepted"] > attempts / 2
        assert made.value.counts["declined"]
        assert set(made.value.counts["rejected"]) >= REJECTED
        assert made.value.info["examples"]["tool-not-offered"] == ["no_such_tool"]
        while made.value.counts["failed"]:
            assert made.lacks
            failed = sum(made.value.counts["failed"].values())
            assert count(tmp_path) == (script.replied.total(), script.failed)
            before = len(server.calls)
            made = run(server.url, tmp_path, max_attempts=attempts, retries=1)
            check_counts(made, attempts)
            again = {digest(call) for call in server.calls[before:]}
            # Those that failed for good, and what comes after them.
            assert len(again) <= 2 * failed
        assert count(tmp_path) == (script.replied.total(), script.failed)
        # No reply that came was ever asked for again.
        assert set(script.replied.values()) == {1}
        before = len(server.calls)
        replayed = run(server.url, tmp_path, max_attempts=attempts, concurrency=1)
        assert len(server.calls) == before
    assert list(replayed.value.queries) == list(made.value.queries)
    assert list(replayed.value.attempts) == list(made.value.attempts)


def test_good_answers_make_the_wanted_queries_and_no_call_is_in_vain(tmp_path):
    with ChatServer(good) as server:
        made = write_by(server.url, tmp_path)
    assert len(made.value.queries) == made.value.counts["accepted"] == 20
    assert made.value.counts["attempts"] == 20
    assert len(server.calls) == 40
    assert not made.lacks
    first = next(iter(made.value.queries))
    assert first.query == f"Could you, today: {first.draft}"
    assert set(first.tools) <= {tool.name for tool in SHOP}
    assert first.provenance.model == "served-model"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer.text('{"draft": "Once', finish_reason="length"), "cut-off"),
        (Answer.text("", finish_reason="content_filter"), "content-filter"),
        (Answer.text(""), "empty"),
    ],
)
@pytest.mark.parametrize(
    "spoils_polish", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_half_an_answer_is_not_paid_for_again(tmp_path, answer, reason, spoils_polish):
    def script(call):
        is_third = call.number % 5 == 3
        return answer if is_third and call.asks_polish == spoils_polish else good(call)

    with ChatServer(script) as server:
        made = write_by(server.url, tmp_path, queries=12, concurrency=1)
        asked = len(server.calls)
        again = write_by(server.url, tmp_path, queries=12, concurrency=1)
        assert len(server.calls) == asked
        larger = write_by(server.url, tmp_path, queries=1, max_tokens=9999)
        assert len(server.calls) > asked
    assert set(made.value.counts["rejected"]) == {reason}
    assert made.value.counts["failed"] == {}
    assert not made.lacks
    assert list(again.value.queries) == list(made.value.queries)
    assert again.value.counts == made.value.counts
    assert larger.value.queries


def test_half_a_character_in_what_an_endpoint_says_ends_no_run(tmp_path):
    refusal = b'{"error": {"message": "bad \\ud800 sign", "type": "x"}}'

    def script(call):
        return Answer(400, refusal) if call.number % 5 == 3 else good(call)

    with ChatServer(script) as server:
        made = write_by(server.url, tmp_path, queries=6, concurrency=1)
    assert made.value.counts["accepted"] == 6
    assert "bad ? sign" in str(made.value.info["examples"])
