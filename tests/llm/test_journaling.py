"""Asking a real server through the journal: what is asked, kept, counted and told."""

import asyncio
import sqlite3
from contextlib import suppress

import pytest

from tests.servers.chat import Answer, ChatServer, closed_url
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


def ask_all(url, folder, attempts, **settings):
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
            pool = Pool(find_engine(config), config, journal, EngineContext())
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


def test_the_same_model_on_another_port_is_not_asked_again(tmp_path):
    with ChatServer(lambda call: GOOD) as server:
        ask_all(server.url, tmp_path, [0])
    pool, got = ask_all(closed_url(), tmp_path, [0])
    assert pool.counts.from_journal == 1
    assert got[0].text == '{"query": "fine"}'


def test_a_failed_call_is_tried_again_and_each_retry_is_counted(tmp_path):
    def script(call):
        return [Answer.error(429, Retry_After="0"), Answer.error(500), GOOD][
            min(call.number, 2)
        ]

    with ChatServer(script) as server:
        pool, got = ask_all(server.url, tmp_path, [0])
    assert got[0].text == '{"query": "fine"}'
    assert pool.counts.retries == {"http-429": 1, "http-500": 1}
    assert pool.counts.asked == 1


def test_a_call_that_fails_for_good_is_in_the_journal_and_asked_again_by_a_new_run(
    tmp_path,
):
    with ChatServer(lambda call: Answer.error(500, "broken")) as server:
        pool, got = ask_all(server.url, tmp_path, [3], retries=1)
        assert got[3].reason == "http-500"
        assert pool.counts.failures == {"http-500": 1}
        assert len(server.calls) == 2
        server.script = lambda call: GOOD
        _, got = ask_all(server.url, tmp_path, [3])
        assert got[3].text == '{"query": "fine"}'
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        rows = connection.execute("SELECT attempt, stage, reason, final FROM failures")
        assert rows.fetchall() == [
            (3, "polish", "http-500", False),
            (3, "polish", "http-500", True),
        ]


@pytest.mark.parametrize(
    "answer", [Answer.error(401), Answer.error(400), Answer.error(404)]
)
def test_what_can_not_get_better_is_not_tried_again(tmp_path, answer):
    with ChatServer(lambda call: answer) as server:
        _, got = ask_all(server.url, tmp_path, [0], retries=5)
        assert isinstance(got[0], EngineError)
        assert len(server.calls) == 1


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
