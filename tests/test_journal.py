import asyncio
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from toolbank.errors import ToolbankError
from toolbank.journal import Failure, Journal
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


def test_failures_are_kept_apart_from_replies(tmp_path):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        asyncio.run(
            journal.put_failure(Failure("k", 3, "write", "http-500", "it broke"))
        )
        assert journal.get("k") is None
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM failures").fetchall()
    assert rows == [("k", 3, "write", "http-500", "it broke")]


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
