"""Who calls next, and when."""

import asyncio
from itertools import pairwise

from tests.llm.control.virtual import (
    Endpoint,
    Memory,
    ask_all,
    good,
    request,
    run,
)
from toolbank.chat.chat import ChatReply
from toolbank.generate.config import GenerateConfig
from toolbank.llm.ask import Asker
from toolbank.llm.control.stop import Stopped


def kinds(got):
    return [type(one) for one in got]


def test_no_more_calls_are_in_flight_than_may_be():
    engine = Endpoint(good)
    _, _, got = ask_all(engine, 50, concurrency=7)
    assert engine.most_in_flight == 7
    assert kinds(got) == [ChatReply] * 50
    assert engine.calls[-1][0] == 7


def test_of_those_that_wait_the_oldest_row_goes_first():
    engine = Endpoint(good)

    async def talk():
        config = GenerateConfig(model="m", concurrency=1)
        asker = Asker(engine, Memory(), config)
        # A row that comes to its polish late is older than those which begin to write.
        await asyncio.gather(*(asker.ask(request(n)) for n in (5, 7, 6, 2, 9, 1)))

    run(talk())
    assert [attempt for _, attempt in engine.calls] == [5, 1, 2, 6, 7, 9]


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


def test_a_budget_of_calls_is_never_overshot():
    engine = Endpoint(good)
    asker, journal, got = ask_all(engine, 50, concurrency=8, budget={"calls": 20})
    assert len(engine.calls) == len(journal.replies) == 20
    assert kinds(got).count(Stopped) == 30
    assert asker.stop.cause == "budget"
    assert "20 calls" in asker.stop.message


def test_what_is_in_flight_is_within_a_budget_of_tokens_or_dollars():
    def lengthy(*_):
        return ChatReply("{}", "m", 1500, 300)

    engine = Endpoint(lengthy)
    asker, journal, _ = ask_all(engine, 2000, concurrency=300, budget={"tokens": 10**6})
    assert asker.stop.cause == "budget"
    assert 540 <= len(journal.replies) <= 556
    price = {"input": 0.15, "output": 0.6}
    asker, _, _ = ask_all(
        Endpoint(lengthy), 2000, concurrency=256, price=price, budget={"dollars": 0.3}
    )
    assert 0.29 < asker.dollars <= 0.3


def test_a_budget_that_is_smaller_than_the_first_estimate_is_tried():
    engine = Endpoint(good)
    _, journal, _ = ask_all(engine, 50, concurrency=4, budget={"tokens": 150})
    assert len(journal.replies) == 10


def test_a_budget_of_minutes_ends_a_run_that_waits_too():
    engine = Endpoint(good)
    asker, _, got = ask_all(engine, 500, rpm=60, budget={"minutes": 2})
    assert asker.stop.cause == "budget"
    assert kinds(got).count(ChatReply) in (120, 121)


def test_a_stop_lets_those_in_flight_finish_and_sends_those_that_wait_home():
    engine = Endpoint(good)

    async def stop(asker):
        await asyncio.sleep(0.5)
        asker.stop.ask("interrupt", "enough")

    _, journal, got = ask_all(engine, 20, after=stop, concurrency=6)
    assert kinds(got) == [ChatReply] * 6 + [Stopped] * 14
    assert len(journal.replies) == 6


def test_a_call_that_is_cancelled_gives_its_place_back():
    engine = Endpoint(good)

    async def talk():
        asker = Asker(engine, Memory(), GenerateConfig(model="m", concurrency=2))
        asked = [asyncio.create_task(asker.ask(request(n))) for n in range(6)]
        await asyncio.sleep(0.5)
        for task in asked[1:4]:
            task.cancel()
        got = await asyncio.gather(*asked, return_exceptions=True)
        return asker.gate.in_flight, kinds(got).count(asyncio.CancelledError)

    assert run(talk()) == (0, 3)
    assert [attempt for _, attempt in engine.calls] == [0, 1, 4, 5]
