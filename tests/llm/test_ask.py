import asyncio
import sqlite3

import pytest

from tests.chat_server import Answer, ChatServer, closed_url
from toolbank.bank.records import Tool
from toolbank.chat.chat import ChatRequest, EngineError, Message, PolishTask
from toolbank.generate.config import GenerateConfig
from toolbank.journal import Journal
from toolbank.llm.ask import Asker
from toolbank.llm.control.counts import AskCounts
from toolbank.llm.control.stop import Stopped
from toolbank.llm.engines.openai.engine import OpenAIEngine

GOOD = Answer.json({"query": "fine"})


def request(attempt=0):
    task = PolishTask("draft", (Tool(name="a.b", kind="function"),))
    return ChatRequest(
        attempt, "polish", (Message("user", "json"),), {"type": "object"}, task
    )


def ask_all(url, folder, attempts, retries=2):
    """Replies or errors by attempt, and the counts, of one run of the command."""
    asker, got = ask_with(url, folder, attempts, retries=retries)
    return got, asker.counts


def ask_with(url, folder, attempts, **settings):
    """The asker, and replies or errors by attempt, of one run of the command."""

    async def talk():
        config = GenerateConfig(engine="openai", base_url=url, model="m", **settings)
        engine = OpenAIEngine(config)
        with Journal(folder / "journal.sqlite") as journal:
            asker = Asker(engine, journal, config)
            got = await asyncio.gather(
                *(asker.ask(request(i)) for i in attempts), return_exceptions=True
            )
        await engine.close()
        return asker, [getattr(asked, "reply", asked) for asked in got]

    return asyncio.run(talk())


def test_a_journaled_reply_is_never_asked_for_again(tmp_path):
    with ChatServer(lambda call: Answer.json({"n": call.number})) as server:
        first, counts = ask_all(server.url, tmp_path, range(5))
        assert (counts.asked, counts.from_journal) == (5, 0)
        assert (counts.prompt_tokens, counts.completion_tokens) == (35, 15)
        again, counts = ask_all(server.url, tmp_path, range(6))
        assert (counts.asked, counts.from_journal) == (1, 5)
        assert again[:5] == first
        assert len(server.calls) == 6


def test_the_same_model_on_another_port_is_not_asked_again(tmp_path):
    with ChatServer(lambda call: GOOD) as server:
        ask_all(server.url, tmp_path, [0])
    got, counts = ask_all(closed_url(), tmp_path, [0])
    assert counts.from_journal == 1
    assert got[0].text == '{"query": "fine"}'


def test_a_failed_call_is_tried_again_and_each_retry_is_counted(tmp_path):
    def script(call):
        return [Answer.error(429, Retry_After="0"), Answer.error(500), GOOD][
            min(call.number, 2)
        ]

    with ChatServer(script) as server:
        (reply,), counts = ask_all(server.url, tmp_path, [0])
    assert reply.text == '{"query": "fine"}'
    assert counts.retries == {"http-429": 1, "http-500": 1}
    assert counts.asked == 1


def test_a_call_that_fails_for_good_is_in_the_journal_and_asked_again_by_a_new_run(
    tmp_path,
):
    with ChatServer(lambda call: Answer.error(500, "broken")) as server:
        (error,), counts = ask_all(server.url, tmp_path, [3], retries=1)
        assert isinstance(error, EngineError)
        assert error.reason == "http-500"
        assert counts.failures == {"http-500": 1}
        assert len(server.calls) == 2
        server.script = lambda call: GOOD
        (reply,), _ = ask_all(server.url, tmp_path, [3])
        assert reply.text == '{"query": "fine"}'
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
        (error,), _ = ask_all(server.url, tmp_path, [0], retries=5)
        assert isinstance(error, EngineError)
        assert len(server.calls) == 1


def test_a_server_that_asks_for_an_hour_ends_the_run(tmp_path):
    with ChatServer(lambda call: Answer.error(429, Retry_After="3600")) as server:
        asker, got = ask_with(server.url, tmp_path, [0])
        assert [type(error) for error in got] == [Stopped]
        assert "3600 s" in asker.stop.message
        assert "max_outage" in asker.stop.message
        assert len(server.calls) == 1


def test_a_reply_is_on_disk_before_it_is_returned(tmp_path):
    async def talk(url):
        config = GenerateConfig(engine="openai", base_url=url, model="m")
        engine = OpenAIEngine(config)
        with Journal(tmp_path / "journal.sqlite") as journal:
            await Asker(engine, journal, config).ask(request())
            with sqlite3.connect(tmp_path / "journal.sqlite") as other:
                (count,) = other.execute("SELECT count(*) FROM replies").fetchone()
        await engine.close()
        return count

    with ChatServer(lambda call: GOOD) as server:
        assert asyncio.run(talk(server.url)) == 1


def test_the_key_is_in_no_file_and_no_message(tmp_path, monkeypatch):
    key = "sk-test-77aa01bc"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def script(call):
        assert call.headers["authorization"] == f"Bearer {key}"
        echoes = [Answer.error(400, f"bad {key}"), Answer.html(key), GOOD]
        return echoes[call.number % 3]

    with ChatServer(script) as server:
        got, _ = ask_all(server.url, tmp_path, range(6), retries=0)
    assert any(isinstance(error, EngineError) for error in got)
    assert not any(key in str(error) for error in got)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert files
    assert not any(key.encode() in path.read_bytes() for path in files)


def test_the_counts_are_told_in_a_line():
    counts = AskCounts(asked=1200, from_journal=12)
    assert counts.summary() == "1,200 replies asked for, 12 from the journal"
    counts.prompt_tokens, counts.completion_tokens = 41210, 9300
    counts.retries.update(["timeout", "http-429", "http-429"])
    counts.failures.update(["http-500"])
    assert counts.summary() == (
        "1,200 replies asked for (41,210 tokens in, 9,300 out; "
        "3 retries: http-429 2, timeout 1; 1 failed call: http-500 1), "
        "12 from the journal"
    )
