"""When calls are made, and how many; under every bound at once none waits for ever."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.llm.virtual import (
    Endpoint,
    ask_all,
    broken,
    carry,
    good,
    kinds,
    make_pool,
    request,
    run,
)
from toolbank.llm.chat import ChatReply, EngineError
from toolbank.llm.stop import StoppedError


async def attempt(pool, number):
    with pool.attempt() as calls:
        await calls.ask(request(number))


def test_a_journaled_reply_is_never_requested_again():
    engine = Endpoint(lambda request, _: ChatReply(str(request.attempt), "m", 7, 3))
    pool, journal, first = ask_all(engine, 5)
    assert (pool.counts.asked, pool.counts.from_journal) == (5, 0)
    assert (pool.counts.prompt_tokens, pool.counts.completion_tokens) == (35, 15)
    pool, _, again = ask_all(engine, 6, journal=journal)
    assert (pool.counts.asked, pool.counts.from_journal) == (1, 5)
    assert again[:5] == first
    assert len(engine.calls) == 6


def test_a_cancelled_run_begins_no_further_call():
    engine = Endpoint(good, seconds=60.0)

    async def talk():
        pool = make_pool(engine, concurrency=8)
        async with asyncio.timeout(10):
            await carry(pool, (attempt(pool, n) for n in range(300)))

    with pytest.raises(TimeoutError):
        run(talk())
    assert (len(engine.calls), engine.in_flight) == (8, 0)


def test_no_more_calls_are_in_flight_than_may_be():
    engine = Endpoint(good)
    _, _, got = ask_all(engine, 50, concurrency=7)
    assert engine.most_in_flight == 7
    assert kinds(got) == [ChatReply] * 50
    assert engine.calls[-1][0] == 7


def test_an_attempt_that_has_begun_goes_before_others():
    engine = Endpoint(good)

    async def write_and_polish(pool, number):
        with pool.attempt(2) as calls:
            await calls.ask(replace(request(number), step="write"))
            await calls.ask(request(number))

    async def talk():
        pool = make_pool(engine, concurrency=2)
        await carry(pool, (write_and_polish(pool, n) for n in range(6)))

    run(talk())
    assert [n for _, n in engine.calls] == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]


def test_calls_a_minute_are_spread_over_it():
    engine = Endpoint(good)
    ask_all(engine, 30, concurrency=30, rpm=60)
    times = [time for time, _ in engine.calls]
    assert times[0] == 0
    assert all(abs(b - a - 1) < 1e-6 for a, b in pairwise(times))


def test_tokens_a_minute_bound_the_calls():
    engine = Endpoint(good, seconds=0.0)
    # 100 tokens of prompt are estimated, and 15 told with each reply.
    ask_all(engine, 100, concurrency=1, tpm=900)
    assert 95 < engine.calls[-1][0] < 125


def test_a_budget_that_failed_tries_used_up_is_what_stops_the_run():
    """No attempt is left that could ask for more."""

    def fail_once(request, now):
        return broken() if request.attempt == 0 and now == 0 else good()

    engine = Endpoint(fail_once)
    pool, _, got = ask_all(engine, 3, concurrency=2, budget={"calls": 3})
    assert kinds(got) == [ChatReply, ChatReply, StoppedError]
    assert pool.stop.cause == "budget"
    assert "3 calls is spent; to go on, raise it" in pool.stop.message


@pytest.mark.parametrize("calls", range(1, 60))
def test_a_budget_does_not_keep_a_run_from_ending_at_an_endpoint_that_is_down(calls):
    engine = Endpoint(lambda *_: broken(), seconds=0.1)
    pool, _, _ = ask_all(engine, 100, concurrency=8, budget={"calls": calls})
    assert len(engine.calls) <= calls
    assert pool.stop.cause in {"budget", "error"}


def test_what_is_in_flight_is_within_a_budget_of_tokens_or_dollars():
    def lengthy(*_):
        return ChatReply("{}", "m", 1500, 300)

    engine = Endpoint(lengthy)
    pool, journal, _ = ask_all(engine, 2000, concurrency=300, budget={"tokens": 10**6})
    assert pool.stop.cause == "budget"
    assert 540 <= len(journal.replies) <= 556
    limits = {"price": {"input": 0.15, "output": 0.6}, "budget": {"dollars": 0.3}}
    pool, _, _ = ask_all(Endpoint(lengthy), 2000, concurrency=256, **limits)
    assert 0.29 < pool.budget.dollars <= 0.3


@pytest.mark.parametrize("fails_first", [False, True])
def test_below_the_first_estimate_a_failed_try_is_free(fails_first):
    def script(request, now):
        fails = fails_first and request.attempt == 0 and now == 0
        return broken() if fails else good()

    engine = Endpoint(script)
    _, journal, got = ask_all(engine, 50, concurrency=4, budget={"tokens": 150})
    assert len(journal.replies) == 10
    assert kinds(got[:10]) == [ChatReply] * 10


def test_a_budget_of_minutes_ends_a_run_that_waits_too():
    engine = Endpoint(good)
    pool, _, got = ask_all(engine, 500, rpm=60, budget={"minutes": 2})
    assert pool.stop.cause == "budget"
    assert kinds(got).count(ChatReply) in (120, 121)


def test_a_mistake_of_the_program_ends_all_and_is_what_is_raised():
    engine = Endpoint(good)

    async def fail_at_3(pool, number):
        await attempt(pool, number)
        if number == 3:
            raise KeyError(number)

    async def talk():
        pool = make_pool(engine, concurrency=2)
        with pytest.raises(KeyError):
            await carry(pool, (fail_at_3(pool, n) for n in range(50)))
        return pool

    assert run(talk()).admission.in_flight == 0
    assert len(engine.calls) < 10


def test_what_was_paid_for_is_kept_where_the_next_attempt_can_not_begin():
    engine = Endpoint(good)

    def attempts(pool):
        for number in range(12):
            yield attempt(pool, number)
        raise KeyError("offers")

    async def talk():
        pool = make_pool(engine, concurrency=1)
        with pytest.raises(KeyError):
            await carry(pool, attempts(pool))
        return pool

    pool = run(talk())
    # But for the one that is in flight.
    assert len(pool._journal.replies) == len(engine.calls) - 1 > 0


def any_settings(random):
    budget = random.choice(
        [
            {},
            {"calls": random.randint(1, 300)},
            {"tokens": random.randint(1, 5000)},
            {"minutes": random.uniform(0.01, 3)},
            {"calls": random.randint(1, 300), "minutes": random.uniform(0.01, 3)},
        ]
    )
    return {
        "concurrency": random.choice([1, 2, 7, 64, "auto"]),
        "rpm": random.choice([None, 30, 6000]),
        "tpm": random.choice([None, 5000]),
        "retries": random.choice([0, 2, 5]),
        "max_outage": random.choice([5, 120]),
        "timeout": random.choice([0.5, 120]),
        "budget": budget,
    }


def any_script(random):
    fails = random.choice([0, 0.1, 0.5])
    dies, lives = sorted(random.uniform(0, 60) for _ in range(2))

    def script(_, now):
        if dies <= now < lives or random.random() < fails:
            reason = random.choice(["http-429", "http-500", "timeout", "connection"])
            wait = random.choice([None, None, None, 3.0])
            return broken(reason=reason, retry_after=wait)
        return replace(good(), pause=random.choice([0.0] * 20 + [2.0]))

    return script


@pytest.mark.parametrize("seed", range(60))
def test_every_row_comes_to_an_end_and_every_place_is_given_back(seed):
    random = Random(seed)
    settings = any_settings(random)
    engine = Endpoint(any_script(random), seconds=random.choice([0.0, 0.2, 1.0]))
    stops_at = random.choice([None, None, random.uniform(0, 60)])

    got = []

    async def attempt(pool, number):
        try:
            with pool.attempt(2) as calls:
                await calls.ask(replace(request(number), step="write"))
                if number % 3:
                    await calls.ask(request(number))
        except Exception as error:
            got.append(type(error))
        else:
            got.append(None)

    async def stop(pool):
        if stops_at is not None:
            await asyncio.sleep(stops_at)
            pool.stop.end("interrupt", "enough")

    async def talk():
        pool = make_pool(engine, **settings)
        await carry(pool, (attempt(pool, n) for n in range(150)), stop)
        return pool

    pool = run(talk())
    assert set(got) <= {None, EngineError, StoppedError}
    assert pool.admission.in_flight == engine.in_flight == 0
    if not pool.stop:
        assert len(got) == 150
        assert StoppedError not in got
    if calls := settings["budget"].get("calls"):
        assert len(engine.calls) <= calls
