"""Rows under every bound at once, in virtual time: whatever happens, none waits for ever."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from tests.llm.control.virtual import Endpoint, Memory, broken, good, request, run
from toolbank.chat.chat import EngineError
from toolbank.generate.config import GenerateConfig
from toolbank.llm.ask import Asker
from toolbank.llm.control.stop import Stopped


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

    async def row(asker, number):
        try:
            await asker.ask(replace(request(number), stage="write"))
            if number % 3:
                await asker.ask(request(number))
        finally:
            asker.end_row(number)

    async def talk():
        asker = Asker(engine, Memory(), GenerateConfig(model="m", **settings))
        with asker.keep_minutes():
            rows = [asyncio.create_task(row(asker, n)) for n in range(150)]
            if stops_at is not None:
                await asyncio.sleep(stops_at)
                asker.stop.ask("interrupt", "enough")
            got = await asyncio.gather(*rows, return_exceptions=True)
        return asker, got

    asker, got = run(talk())
    assert {type(one) for one in got} <= {type(None), EngineError, Stopped}
    assert asker.gate.in_flight == engine.in_flight == 0
    if not asker.stop:
        assert Stopped not in {type(one) for one in got}
    if calls := settings["budget"].get("calls"):
        assert len(engine.calls) <= calls
