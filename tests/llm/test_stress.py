"""Rows under every bound at once, in virtual time: whatever happens, none waits for ever."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from tests.llm.virtual import Endpoint, broken, carry, good, make_pool, request, run
from toolbank.llm.chat import EngineError
from toolbank.llm.stop import StoppedError


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
