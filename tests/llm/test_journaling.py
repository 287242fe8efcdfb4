"""Asking a real server through the journal: what is asked, kept, counted and told."""

import asyncio
from contextlib import suppress

from tests.servers.chat import Answer, ChatServer
from toolbank.llm.accounts import CallCounts
from toolbank.llm.chat import ChatRequest, EngineError, Message
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import ToolbankError

GOOD = Answer.json({"query": "fine"})


def request(attempt=0):
    return ChatRequest(attempt, "polish", (Message("user", "json"),), {})


def ask_all(url, folder, attempts, kind=None, **settings):
    """The pool, and replies or errors by attempt, of one run of the command."""
    got = {}

    async def ask(pool, number):
        with pool.attempt() as calls:
            try:
                got[number] = await calls.ask(request(number))
            except EngineError as error:
                got[number] = error

    async def talk():
        config = GenerateConfig(base_url=url, model="m", **{"retries": 2, **settings})
        with Journal(folder / "journal.sqlite") as journal:
            pool = Pool(kind or find_engine(config), config, journal, EngineContext())
            waiting = (ask(pool, number) for number in attempts)
            with suppress(ToolbankError):
                async with pool.working():
                    await pool.carry(lambda: next(waiting, None))
        return pool

    return asyncio.run(talk()), got


def test_a_journaled_reply_is_never_asked_for_again(tmp_path):
    with ChatServer(lambda call: Answer.json({"n": call.number})) as server:
        pool, first = ask_all(server.url, tmp_path, range(5))
        assert (pool.counts.asked, pool.counts.from_journal) == (5, 0)
        assert (pool.counts.prompt_tokens, pool.counts.completion_tokens) == (35, 15)
        pool, again = ask_all(server.url, tmp_path, range(6))
        assert (pool.counts.asked, pool.counts.from_journal) == (1, 5)
        assert [again[n] for n in range(5)] == [first[n] for n in range(5)]
        assert len(server.calls) == 6


def test_the_counts_are_told_in_a_line():
    counts = CallCounts(asked=1200, from_journal=12)
    assert counts.summary() == "1,200 replies asked for, 12 from the journal"
    counts.prompt_tokens, counts.completion_tokens = 41210, 9300
    counts.retries.update(["timeout", "http-429", "http-429"])
    counts.failures.update(["http-500"])
    assert counts.summary() == (
        "1,200 replies asked for (41,210 tokens in, 9,300 out; "
        "3 retries: http-429 2, timeout 1; 1 failed call: http-500 1), "
        "12 from the journal"
    )
