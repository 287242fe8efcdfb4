"""Searches that hang, and too many of them: the others are served."""

import asyncio
import threading
import time

import pytest

from toolbank.search.serve import searches as pools
from toolbank.search.serve.messages import RefusalError


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(pools, "SEARCH_TIME", 0.3)
    monkeypatch.setattr(pools, "MOST_WAITING", 3)
    monkeypatch.setattr(pools.os, "cpu_count", lambda: 2)
    made = pools.SearchThreads()
    yield made
    made.close()


async def refuse(work):
    with pytest.raises(RefusalError) as refused:
        await work
    return refused.value


def test_a_search_that_hangs_is_given_up_and_the_others_are_answered(pool):
    let_go = threading.Event()

    async def ask():
        hanging = asyncio.ensure_future(pool.run(let_go.wait))
        others = [await pool.run(lambda n=n: n) for n in range(5)]
        refused = await refuse(hanging)
        let_go.set()
        return others, refused.status

    assert asyncio.run(ask()) == ([*range(5)], 504)


def test_more_than_may_wait_are_refused_at_once_and_a_batch_counts_each(pool):
    let_go = threading.Event()

    async def ask(*sizes):
        let_go.clear()
        works = [pool.run_each([let_go.wait] * size) for size in sizes]
        waiting = [asyncio.ensure_future(work) for work in works]
        await asyncio.sleep(0)
        refused = await refuse(pool.run_each([let_go.wait] * (6 - sum(sizes))))
        let_go.set()
        assert [len(one) for one in await asyncio.gather(*waiting)] == [*sizes]
        return refused

    for sizes in ((1, 1, 1, 1, 1), (4,), (4, 1)):
        refused = asyncio.run(ask(*sizes))
        assert refused.status == 503
        assert "Retry-After" in refused.headers
    assert (pool.refused, pool.running) == (3, 0)
    assert asyncio.run(pool.run_each([])) == []


def test_a_batch_lets_others_have_their_turn(pool, monkeypatch):
    done, let_go = [], threading.Event()

    def work(name):
        let_go.wait()
        done.append(name)
        return name

    async def ask():
        monkeypatch.setattr(pools, "MOST_WAITING", 200)
        works = [pool.run_each([lambda n=n: work(n)] * 50) for n in range(2)]
        batches = [asyncio.ensure_future(one) for one in works]
        await asyncio.sleep(0)
        single = asyncio.ensure_future(pool.run(lambda: work("single")))
        await asyncio.sleep(0)
        let_go.set()
        await single
        return await asyncio.gather(*batches)

    assert asyncio.run(ask()) == [[0] * 50, [1] * 50]
    assert "single" in done[:10]


def test_a_batch_that_takes_too_long_is_given_up_with_what_is_left_of_it(pool):
    begun = []

    def work():
        begun.append(1)
        time.sleep(0.02)

    async def ask():
        refused = await refuse(pool.run_each([work] * 200))
        return refused.status, await pool.run(lambda: len(begun))

    status, then = asyncio.run(ask())
    assert status == 504
    assert len(begun) <= then + 1 < 200
    assert pool.running == 0
