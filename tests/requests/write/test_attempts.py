"""Which attempts are begun, stopped and left pending, with engines made for it."""

import asyncio
import json
import random
import re
import signal
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import kind_of
from tests.requests.write.writing import count_replies, write_shop
from tests.world import adds_up, drafted, polished, sentence
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatReply, EngineError
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import share_out
from toolbank.system.errors import ToolbankError


def answer(request):
    """A reply that passes every check, a function of the attempt alone."""
    text = sentence(request.attempt)
    names = [tool.name for tool in request.task.tools[:2]]
    reply = polished(text) if request.step == "polish" else drafted(names, text)
    return ChatReply(json.dumps(reply), "m", 10, 5)


class Swift:
    """Answers at once what a script says: a reply, or an error to raise."""

    name, model, identity, offers = "swift", "m", "swift", None

    def __init__(self, script=answer):
        self.script = script
        self.calls = []

    async def answer(self, request):
        self.calls.append((request.attempt, request.step))
        await asyncio.sleep(0)
        outcome = self.script(request)
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome

    async def close(self):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run_engine(engine, folder="run", **settings):
        monkeypatch.setattr("toolbank.llm.step.find_engine", lambda _: kind_of(engine))
        return write_shop(tmp_path / folder, **settings)

    return run_engine


def test_a_budget_of_calls_makes_a_bank_of_the_attempts_that_ended(run, tmp_path):
    engine = Swift()
    made = run(engine, queries=30, budget={"calls": 41}, concurrency=4)
    assert len(engine.calls) == count_replies(tmp_path / "run") == 40
    assert adds_up(made.value.counts)
    assert made.value.counts["attempts"] == len(made.value.attempts)
    assert len(made.value.queries) == 20
    assert made.lacks
    assert any("budget of 41 calls" in problem for problem in made.problems)
    again = run(Swift(), queries=30, budget={"calls": 41}, concurrency=4)
    assert list(again.value.queries) == list(made.value.queries)
    whole = run(engine, queries=30)
    assert len(engine.calls) == 60
    assert not whole.lacks
    assert list(whole.value.queries)[:20] == list(made.value.queries)


class Uneven(Swift):
    """Some calls take long, and one in ten fails at first."""

    def __init__(self, fails=0.0, script=answer):
        super().__init__(script)
        self.fails = fails
        self.tries = Counter()

    async def answer(self, request):
        row = (request.attempt, request.step)
        self.tries[row] += 1
        chance = random.Random(f"{row} {self.tries[row]}")
        await asyncio.sleep(0.02 * chance.random() ** 4)
        if chance.random() < self.fails:
            raise EngineError("busy", reason="http-500", retryable=True)
        return await super().answer(request)


@pytest.mark.parametrize("fails", [0.0, 0.1])
@pytest.mark.parametrize(
    "budget", [{"calls": 200}, {"tokens": 3000}, {"dollars": 0.003}, {"minutes": 0.005}]
)
def test_attempts_that_began_are_finished(run, tmp_path, monkeypatch, fails, budget):
    monkeypatch.setattr("toolbank.llm.caller._FIRST_WAIT", 0.01)
    engine = Uneven(fails)
    price = {"input": 1, "output": 1}
    made = run(engine, queries=5000, concurrency=64, budget=budget, price=price)
    assert made.lacks
    assert count_replies(tmp_path / "run") == len(engine.calls)
    # Where no try failed, nothing that was paid for is left out of the bank.
    if not fails:
        assert len(engine.calls) == 2 * made.value.counts["attempts"]
    if "calls" in budget:
        assert 198 <= sum(engine.tries.values()) <= 200


def test_a_budget_that_is_just_enough_is_not_spent(run):
    with pytest.raises(ToolbankError, match="budget of 1 calls is spent"):
        run(Swift(), budget={"calls": 1})
    made = run(Swift(), budget={"calls": 40}, price={"input": 1, "output": 1})
    assert not made.lacks
    assert made.problems == ()


def test_refusals_one_after_another_stop_the_run(run):
    engine = Swift(lambda _: EngineError("too long a prompt", reason="bad-request"))
    with pytest.raises(ToolbankError, match="10 attempts failed one after another"):
        run(engine, queries=1000, concurrency=2)
    assert len(engine.calls) < 40


def test_reasons_of_rejected_and_failed_attempts_are_told_apart_often_first(run):
    def script(request):
        """Of six attempts two break off, two fail for that reason, one polish is no JSON."""
        number = request.attempt % 6
        if number in (0, 1):
            return ChatReply("half", "m", 10, 5, finish="cut-off")
        if number in (2, 3):
            return EngineError(f"call {number} broke", reason="cut-off")
        is_odd = number == 4 or request.step == "polish"
        return ChatReply("What?", "m", 10, 5) if is_odd else answer(request)

    with pytest.raises(ToolbankError) as told:
        run(Swift(script), queries=2, max_attempts=12, concurrency=1)
    message = str(told.value)
    assert message.splitlines()[2] == "  not-json 4 (2 in the polish), such as: What?"
    assert re.findall(r"^  (?:failed: )?cut-off 4", message, re.MULTILINE) == [
        *("  cut-off 4", "  failed: cut-off 4")
    ]
    assert re.search(r"^  toolbank show /\S+ 0$", message, re.MULTILINE)
    assert "another --out" in message


def test_where_rules_decline_all_it_is_advised_to_request_single_tools(tmp_path):
    bare = [Tool(name=f"api.call{n}", kind="operation") for n in range(12)]
    with pytest.raises(ToolbankError, match=r"declined 3(.|\n)*tools_per_query={1: 1}"):
        write_shop(tmp_path, bare, engine="rules", max_attempts=3)


def test_problems_keep_what_was_rejected_apart_from_what_failed(run):
    broken = EngineError("it broke", reason="bad-request")
    outcomes = {1: ChatReply("What?", "m", 10, 5), 2: broken}
    engine = Swift(lambda request: outcomes.get(request.attempt) or answer(request))
    made = run(engine, queries=3)
    assert made.problems[:3] == (
        "not accepted: not-json 1",
        "failed: bad-request 1",
        "the last failure: it broke",
    )


@pytest.mark.parametrize("concurrency", [1, 64])
def test_where_none_is_accepted_only_the_first_are_paid_for(run, concurrency):
    def script(request):
        """Of the drafts every other one passes, and no polish does."""
        is_odd = request.attempt % 2 or request.step == "polish"
        return ChatReply("What?", "m", 10, 5) if is_odd else answer(request)

    first, second = Uneven(script=script), Uneven(script=script)
    with pytest.raises(ToolbankError, match="None of 50 attempts"):
        run(first, queries=1000, concurrency=concurrency)
    assert {number for number, _ in first.calls} == set(range(50))
    with pytest.raises(ToolbankError, match="None of 50 attempts"):
        run(second, queries=1000, concurrency=concurrency)
    assert second.calls == []


def test_a_replay_holds_few_attempts_open(run):
    run(Swift(), queries=300)
    tasks = []

    def script(request):
        tasks.append(len(asyncio.all_tasks()))
        return answer(request)

    made = run(Swift(script), queries=301)
    assert made.value.counts["accepted"] == 301
    assert max(tasks) < 60


def test_an_error_after_an_interrupt_is_what_the_run_ends_with(run, monkeypatch):
    async def put(*_):
        raise ToolbankError("no room left on the disk")

    class InterruptedByUserError(Swift):
        async def answer(self, request):
            if request.attempt == 5:
                signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.1)
            return await super().answer(request)

    monkeypatch.setattr(Journal, "put", put)
    with pytest.raises(ToolbankError, match="no room left"):
        run(InterruptedByUserError())


SHARES = {1: 0.25, 2: 0.35, 4: 0.4}
EXACTLY = {1: 10, 2: 14, 4: 16}


def picky(request):
    """Decline the more often the more tools are requested."""
    text = sentence(request.attempt)
    if request.step == "polish":
        return ChatReply(json.dumps(polished(text)), "m", 10, 5)
    number = request.task.at_most
    names = [tool.name for tool in request.task.tools[:number]]
    drawn = random.Random(request.attempt)
    reply = {**drafted(names, text), "declined": drawn.random() < 0.15 * number}
    return ChatReply(json.dumps(reply), "m", 10, 5)


@pytest.fixture
def run_shares(run):
    return partial(run, queries=40, tools_per_query=SHARES, offered=4)


def numbers(made):
    return Counter(len(query.tools) for query in made.value.queries)


def test_a_bank_has_exactly_the_shares_and_no_call_is_for_nothing(run_shares):
    engine = Uneven(script=picky)
    made = run_shares(engine, concurrency=16)
    assert not made.lacks
    assert numbers(made) == EXACTLY
    assert adds_up(made.value.counts)
    counted = made.value.counts["tools_per_query"]
    assert {int(n): row["accepted"] for n, row in counted.items()} == EXACTLY
    assert sum(row["asked"] for row in counted.values()) == len(made.value.attempts)
    assert set(engine.tries.values()) == {1}
    assert {n for n, _ in engine.tries} == {row.attempt for row in made.value.attempts}


def test_the_bank_is_the_same_at_any_concurrency_and_after_it_was_stopped(run_shares):
    whole = run_shares(Uneven(script=picky), concurrency=1)
    many = run_shares(Uneven(script=picky), "many", concurrency=32)
    few = {"concurrency": 8, "budget": {"calls": 31}}
    stopped = run_shares(Uneven(script=picky), "stopped", **few)
    assert stopped.lacks
    again = run_shares(Uneven(script=picky), "stopped", concurrency=8)
    for made in (many, again):
        assert list(made.value.queries) == list(whole.value.queries)
        assert list(made.value.attempts) == list(whole.value.attempts)


def test_more_queries_keep_those_that_there_are(run_shares):
    some = run_shares(Uneven(script=picky))
    more = run_shares(Uneven(script=picky), queries=80)
    assert numbers(more) == {n: 2 * count for n, count in EXACTLY.items()}
    assert {q.id for q in some.value.queries} <= {q.id for q in more.value.queries}


def test_a_number_that_is_declined_too_often_is_told(run_shares):
    def script(request):
        reply = picky(request)
        if request.step == "polish" or request.task.at_most < 4:
            return reply
        return ChatReply(json.dumps(json.loads(reply.text) | {"declined": True}), "m")

    made = run_shares(Uneven(script=script), max_attempts=150)
    assert numbers(made) == {1: 10, 2: 14}
    assert "0 of 16 queries with 4 tools" in made.problems


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0.01, 100), min_size=1),
    st.integers(1, 5000),
)
def test_shares_become_whole_numbers_that_add_up(shares, wanted):
    counts = share_out(shares, wanted)
    assert sum(counts.values()) == wanted
    for number, share in shares.items():
        assert abs(counts[number] - wanted * share / sum(shares.values())) < 1
