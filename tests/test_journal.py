import asyncio
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from toolbank.errors import ToolbankError
from toolbank.journal import Failure, Journal, StageUsage
from toolbank.journal.writer import Writer
from toolbank.llm.chat import ChatReply, ChatRequest, Message, PolishTask


def request(number):
    return ChatRequest(
        attempt=number,
        stage="polish",
        messages=(Message("user", f"request {number}"),),
        schema={},
        task=PolishTask("", ()),
    )


def test_a_reply_outlives_the_process(tmp_path):
    path = tmp_path / "journal.sqlite"

    async def put_many(journal):
        await asyncio.gather(
            *(
                journal.put(str(i), "me", request(i), ChatReply(f"reply {i}", "m"))
                for i in range(100)
            )
        )

    with Journal(path) as journal:
        asyncio.run(put_many(journal))
    with Journal(path) as journal:
        assert len(journal) == 100
        assert journal.get("42") == ChatReply("reply 42", "m")
        assert journal.get("none") is None
        entries = list(journal.entries())
    assert [entry.attempt for entry in entries] == list(range(100))
    assert entries[7].messages == [{"role": "user", "content": "request 7"}]


def test_what_was_put_before_a_kill_is_there(tmp_path):
    path = tmp_path / "journal.sqlite"
    script = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from tests.test_journal import request
from toolbank.journal import Journal
from toolbank.llm.chat import ChatReply

async def main(journal):
    for i in range(1000):
        await journal.put(str(i), "me", request(i), ChatReply("r", "m"))
        print(i, flush=True)

with Journal(Path({str(path)!r})) as journal:
    asyncio.run(main(journal))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as child:
        for line in child.stdout:
            seen = int(line)
            if seen >= 25:
                os.kill(child.pid, signal.SIGKILL)
                break
    with Journal(path) as journal:
        assert all(journal.get(str(i)) for i in range(seen + 1))


def test_every_failed_try_is_kept_apart_from_replies(tmp_path):
    failures = [
        Failure("k", 3, "write", "http-500", "it broke", final=False, identity="me"),
        Failure("k", 3, "write", "timeout", "too slow", final=True, identity="me"),
        Failure("l", 4, "write", "http-500", "it broke", final=True, identity="me"),
    ]

    async def put(journal):
        for failure in failures:
            await journal.put_failure(failure)

    with Journal(tmp_path / "journal.sqlite") as journal:
        asyncio.run(put(journal))
        assert journal.get("k") is None
        assert len(journal) == 0
        assert list(journal.failures()) == failures
        assert list(journal.failures(attempt=3)) == failures[:2]
        (usage,) = journal.usage()
    assert usage == StageUsage(
        "write", "me", 0, 0, 0, {"http-500": 2, "timeout": 1}, {}
    )


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0xx"])
def test_a_damaged_journal_is_named(tmp_path, content):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with (
        pytest.raises(ToolbankError, match=r"journal\.sqlite: .*damaged"),
        Journal(path),
    ):
        pass
    assert path.read_bytes() == content


def test_a_journal_of_another_layout_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ToolbankError, match="layout 99"), Journal(path):
        pass


def put_all(journal, requests):
    async def put():
        return await asyncio.gather(
            *(
                journal.put(str(i), "me", request, ChatReply("r", "m"))
                for i, request in enumerate(requests)
            ),
            return_exceptions=True,
        )

    return asyncio.run(asyncio.wait_for(put(), 30))


def test_a_row_that_can_not_be_kept_fails_alone_and_the_writer_goes_on(tmp_path):
    requests = [request(i) for i in range(20)]
    requests[7] = request(2**70)
    with Journal(tmp_path / "journal.sqlite") as journal:
        got = put_all(journal, requests)
        assert [i for i, error in enumerate(got) if error] == [7]
        assert isinstance(got[7], ToolbankError)
        assert put_all(journal, [request(99)]) == [None]
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert len(journal) == 19


def test_a_put_into_a_closed_journal_is_refused_at_once(tmp_path):
    with Journal(tmp_path / "journal.sqlite") as journal:
        pass
    (error,) = put_all(journal, [request(0)])
    assert isinstance(error, ToolbankError)
    assert "closed" in str(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_died(tmp_path, monkeypatch):
    def die(*_):
        raise SystemExit

    monkeypatch.setattr(Writer, "_write_batch", die)
    with Journal(tmp_path / "journal.sqlite") as journal:
        got = put_all(journal, [request(i) for i in range(3)])
        got += put_all(journal, [request(4)])
    assert all(isinstance(error, ToolbankError) for error in got)


def test_a_journal_that_another_process_holds_is_not_called_damaged(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("toolbank.journal.journal._LOCK_WAIT_S", 0.05)
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        (error,) = put_all(journal, [request(0)])
        assert "another process uses the journal" in str(error)
        assert "ove it away" not in str(error)
        holder.execute("COMMIT")
        holder.close()
        assert put_all(journal, [request(0)]) == [None]


def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch):
    connect = Journal._connect

    def connect_small(journal):
        connection = connect(journal)
        connection.execute("PRAGMA max_page_count = 24")
        return connection

    monkeypatch.setattr(Journal, "_connect", connect_small)
    big = ChatReply("r" * 200_000, "m")
    with (
        Journal(tmp_path / "journal.sqlite") as journal,
        pytest.raises(ToolbankError, match="no room left on the disk"),
    ):
        asyncio.run(journal.put("k", "me", request(0), big))
