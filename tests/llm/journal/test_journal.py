import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.small_disk import small_disk
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Message, PolishTask
from toolbank.llm.journal import Failure, Journal, StepUsage
from toolbank.llm.journal.layout import decode, encode
from toolbank.llm.journal.writer import Writer
from toolbank.system.errors import InputError, ToolbankError


def request(number):
    return ChatRequest(
        attempt=number,
        step="polish",
        messages=(Message("user", f"request {number}"),),
        schema={},
        task=PolishTask("", ()),
    )


REPLY = ChatReply("r", "m")


def put_all(journal, requests):
    """Put a reply to each, under its place as key; gives the errors."""

    async def put():
        rows = enumerate(requests)
        puts = [journal.put(str(i), "me", request, REPLY) for i, request in rows]
        return await asyncio.gather(*puts, return_exceptions=True)

    return asyncio.run(asyncio.wait_for(put(), 30))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def test_a_reply_outlives_the_process(path):
    with Journal(path) as journal:
        put_all(journal, map(request, range(100)))
    with Journal(path) as journal:
        assert len(journal) == 100
        assert journal.get("42") == REPLY
        assert journal.get("none") is None
        entries = list(journal.entries())
        assert [entry.key for entry in journal.entries(attempt=7)] == ["7"]
        assert list(journal.entries(attempt=100)) == []
    (error,) = put_all(journal, [request(0)])
    assert isinstance(error, ToolbankError)
    assert [entry.attempt for entry in entries] == list(range(100))
    assert entries[7].messages == [{"role": "user", "content": "request 7"}]


def test_what_was_put_before_a_kill_is_there(path):
    script = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from tests.llm.journal.test_journal import REPLY, request
from toolbank.llm.journal import Journal

async def main(journal):
    for i in range(1000):
        await journal.put(str(i), "me", request(i), REPLY)
        print(i, flush=True)

with Journal(Path({str(path)!r})) as journal:
    asyncio.run(main(journal))
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            seen = int(line)
            if seen >= 25:
                os.kill(child.pid, signal.SIGKILL)
                break
    with Journal(path) as journal:
        assert all(journal.get(str(i)) for i in range(seen + 1))


def fail(journal, error, key="k", attempt=1, step="polish", *, final=False):
    asked = replace(request(attempt), step=step)
    asyncio.run(journal.put_failure(key, "me", asked, error, final=final))


def test_every_failed_try_is_kept_apart_from_replies(path):
    failures = [
        Failure("k", 3, "polish", "http-500", "it broke", final=False, identity="me"),
        Failure("k", 3, "polish", "timeout", "too slow", final=True, identity="me"),
        Failure("l", 4, "polish", "http-500", "it broke", final=True, identity="me"),
    ]
    with Journal(path) as journal:
        for one in failures:
            error = EngineError(one.message, reason=one.reason)
            fail(journal, error, one.key, one.attempt, final=one.final)
        assert journal.get("k") is None
        assert len(journal) == 0
        assert list(journal.failures()) == failures
        assert list(journal.failures(attempt=3)) == failures[:2]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_journal_of_a_later_layout_is_refused_and_left_alone(path, read_only):
    with Journal(path):
        pass
    _database(path, "PRAGMA user_version = 99", "PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with (
        pytest.raises(ToolbankError, match=r"journal\.sqlite: .*layout 99"),
        Journal(path, read_only=read_only) as journal,
    ):
        len(journal)
    assert path.read_bytes()[96:] == before[96:]


def test_a_row_that_can_not_be_kept_fails_alone_and_the_writer_goes_on(path):
    requests = [request(i) for i in range(20)]
    requests[7] = request(2**70)
    with Journal(path) as journal:
        got = put_all(journal, requests)
        assert [i for i, error in enumerate(got) if error] == [7]
        assert isinstance(got[7], ToolbankError)
        assert put_all(journal, [request(99)]) == [None]
    with Journal(path) as journal:
        assert len(journal) == 19


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_died(path, monkeypatch):
    def die(*_):
        raise SystemExit

    monkeypatch.setattr(Writer, "_write_batch", die)
    with Journal(path) as journal:
        got = put_all(journal, [request(i) for i in range(3)])
        got += put_all(journal, [request(4)])
    assert all(isinstance(error, ToolbankError) for error in got)


def test_a_journal_held_by_another_process_is_not_damaged(path, monkeypatch):
    monkeypatch.setattr("toolbank.llm.journal.store._LOCK_WAIT_S", 0.05)
    with Journal(path) as journal:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        (error,) = put_all(journal, [request(0)])
        assert "another process" in str(error)
        assert "ove it away" not in str(error)
        holder.execute("COMMIT")
        holder.close()
        assert put_all(journal, [request(0)]) == [None]


@pytest.mark.parametrize("size", [700, 3000])
def test_replies_that_are_on_their_way_when_the_disk_gets_full_are_kept(tmp_path, size):
    random = Random(0)

    def reply():
        return ChatReply(random.randbytes(300).hex(), "m")

    async def put_until_full(journal):
        for number in count(step=10):
            numbers = range(number, number + 10)
            puts = [journal.put(str(n), "me", request(n), reply()) for n in numbers]
            for error in await asyncio.gather(*puts, return_exceptions=True):
                if error is not None:
                    return number + 10, error
        raise AssertionError

    path = tmp_path / "disk" / "journal.sqlite"
    with small_disk(path.parent, size) as enlarge:
        with Journal(path) as journal:
            came, error = asyncio.run(put_until_full(journal))
            assert isinstance(error, ToolbankError)
            assert "Every reply that came is kept" in str(error)
            assert all(journal.get(str(number)) for number in range(came))
        enlarge()
        with Journal(path) as journal:
            assert len(journal) == came
            assert put_all(journal, [request(came)]) == [None]
        assert [file.name for file in path.parent.iterdir()] == ["journal.sqlite"]


def test_what_finds_no_room_even_in_reserve_is_said_to_be_lost(tmp_path):
    path = tmp_path / "disk" / "journal.sqlite"
    big = ChatReply("r" * 2_000_000, "m")
    with (
        small_disk(path.parent, 1000),
        Journal(path) as journal,
        pytest.raises(ToolbankError, match=r"the disk is full .* requested again"),
    ):
        asyncio.run(journal.put("k", "me", request(0), big))


LATE = EngineError("late", reason="timeout")
SPENT = {"prompt_tokens": 40, "completion_tokens": 9, "estimated": True}
CHARGED = EngineError("cut", reason="timeout", **SPENT)


def test_the_accounts_are_those_of_replies_and_failed_tries_by_step_and_model(path):
    rows = [
        ("write", "me", ChatReply("r", "m", 10 + i, 2, latency=i / 100))
        for i in range(201)
    ]
    rows += [("polish", "me", ChatReply("r", "m", 5, 1)) for _ in range(3)]
    rows += [("write", "you", ChatReply("r", "m", 7, 1, latency=0.5))]

    async def put(journal):
        for number, (step, identity, reply) in enumerate(rows):
            asked = replace(request(number), step=step)
            await journal.put(str(number), identity, asked, reply)

    with Journal(path) as journal:
        asyncio.run(put(journal))
        fail(journal, LATE)
        fail(journal, CHARGED)
        fail(journal, CHARGED, final=True)
        fail(journal, LATE, step="check")
    with Journal(path) as journal:
        usage = journal.usage()
        assert list(journal.attempts(["polish", "check"])) == [201, 202, 203]
    points = ("p50", "p90", "p99", "max")
    # Of 200 measured latencies 0.01 to 2.00, the nearest rank of p is the p-th hundredth.
    latency = dict(zip(points, (1.0, 1.8, 1.98, 2.0), strict=True))
    half = dict.fromkeys(points, 0.5)
    # In the order in which the steps began.
    assert usage == (
        StepUsage("write", "me", 201, sum(range(10, 211)), 402, {}, latency),
        StepUsage("write", "you", 1, 7, 1, {}, half),
        StepUsage("polish", "me", 3, 95, 21, {"timeout": 3}, {}, 2),
        StepUsage("check", "me", 0, 0, 0, {"timeout": 1}, {}),
    )


messages = st.lists(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "assistant"]),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
)


@given(messages)
def test_prompts_come_back_as_they_were(some):
    assert decode(encode(some)) == [asdict(one) for one in some]


COLUMNS = {
    "key": "lower(hex(randomblob(8)))",
    "attempt": "attempt + 1",
    "stage": "'write'",
    "model": "'another'",
    "finish": "'cut-off'",
    "prompt_tokens": "prompt_tokens + 1",
    "completion_tokens": "NULL",
    "latency": "latency + 1",
    "estimated": "'yes'",
    "messages": "substr(messages, 2)",
    "text": "CAST(x'ff' || text AS TEXT)",
    "checksum": "checksum + 1",
}


@pytest.mark.parametrize("column", COLUMNS)
def test_of_a_damaged_reply_only_that_is_lost(path, capsys, column):
    with Journal(path) as journal:
        put_all(journal, [request(i) for i in range(4)])
    schema = "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')"
    _database(path, "PRAGMA writable_schema = ON", f"{schema} WHERE name = 'replies'")
    _database(path, f"UPDATE replies SET {column} = {COLUMNS[column]} WHERE rowid = 3")
    with closing(sqlite3.connect(path)) as connection:
        [key] = connection.execute("SELECT key FROM replies WHERE rowid = 3").fetchone()
    with Journal(path, read_only=True) as journal:
        for _ in range(2):
            assert [entry.key for entry in journal.entries()] == ["0", "1", "3"]
        assert journal.get(key) is None
    (note,) = capsys.readouterr().err.splitlines()
    assert f"{path}: the reply with the key {key} is damaged" in note
    again = ChatReply("again", "m")
    with Journal(path) as journal:
        assert (journal.get("1"), journal.get("2")) == (REPLY, None)
        asyncio.run(journal.put("2", "me", request(2), again))
        assert journal.get("2") == again
    with Journal(path) as journal:
        assert journal.get("2") == again


@pytest.mark.parametrize("earlier", [0, 1])
def test_an_interrupted_wait_loses_no_reply(path, earlier):
    async def cancel_at_once(journal):
        puts = [journal.put(f"k{i}", "me", request(i), REPLY) for i in range(3)]
        puts = [asyncio.create_task(put) for put in puts]
        await asyncio.sleep(0)
        for put in puts:
            put.cancel()
        await asyncio.wait(puts)

    with Journal(path) as journal:
        put_all(journal, [request(9)] * earlier)
        asyncio.run(cancel_at_once(journal))
        assert put_all(journal, [request(8)]) == [None]
    with Journal(path) as journal:
        assert all(journal.get(f"k{i}") for i in range(3))
        contents = {entry.key: entry.messages for entry in journal.entries()}
    assert contents["k2"] == [{"role": "user", "content": "request 2"}]


def test_reading_the_journal_of_a_running_run_takes_nothing_from_it(tmp_path):
    path = tmp_path / "disk" / "journal.sqlite"
    random = Random(0)
    with small_disk(path.parent, 3000) as enlarge:
        with Journal(path) as running:
            put_all(running, [request(0)])
            with Journal(path, read_only=True) as journal:
                assert len(list(journal.entries())) == len(journal) == 1
                assert [usage.replies for usage in journal.usage()] == [1]
                assert isinstance(put_all(journal, [request(1)])[0], ToolbankError)
            with Journal(path):
                pass
            free = shutil.disk_usage(path.parent).free
            filler = path.with_name("filler")
            filler.write_bytes(random.randbytes(free))
            reply = ChatReply(random.randbytes(50_000).hex(), "m")
            with pytest.raises(ToolbankError, match="Every reply that came is kept"):
                asyncio.run(running.put("k", "me", request(1), reply))
        enlarge()
        with Journal(path, read_only=True) as journal:
            assert journal.get("k") == reply
        assert {file.name for file in path.parent.iterdir()} == {"filler", path.name}


def test_what_a_kill_left_is_read_without_a_writer(tmp_path):
    path, left = tmp_path / "journal.sqlite", tmp_path / "left"
    left.mkdir()
    with Journal(path) as journal:
        put_all(journal, [request(0)])
        # What lies on disk in the middle of a run is what a kill leaves.
        for file in tmp_path.glob("journal.sqlite*"):
            shutil.copy(file, left)
    before = threading.active_count()
    with Journal(left / "journal.sqlite", read_only=True) as journal:
        assert threading.active_count() == before
        assert journal.get("0") == REPLY
    assert [file.name for file in left.iterdir()] == ["journal.sqlite"]


def _database(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _left_by_a_crash(path):
    """A database whose last row is in its write-ahead file alone."""
    with closing(sqlite3.connect(path.with_name("whole"))) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (text)")
        connection.commit()
        for end in ("", "-wal"):
            shutil.copyfile(f"{path.with_name('whole')}{end}", f"{path}{end}")


FOREIGN = {
    "empty": lambda path: path.touch(),
    "no SQLite file": lambda path: path.write_text(
        "[remote]\nurl = git@example.org\n" * 20
    ),
    "cut short": lambda path: path.write_bytes(b"SQLite format 3\0xx"),
    "folder": lambda path: path.mkdir(),
    "no regular file": os.mkfifo,
    "link that leads nowhere": lambda path: path.symlink_to("new.sqlite"),
    "another program": _left_by_a_crash,
}
DATABASES = {
    "without tables": """PRAGMA user_version = 2""",
    "in write-ahead mode": """
        PRAGMA journal_mode = WAL;
        CREATE TABLE moz_places (url)""",
    "with an application id": """
        PRAGMA application_id = 0x47504B47;
        CREATE TABLE replies (key, text)""",
    "with tables of the same names": """
        CREATE TABLE replies (id, post, author, text);
        CREATE TABLE failures (id, text);
        PRAGMA user_version = 2""",
    "of layout 1": """
        CREATE TABLE replies (key, attempt, stage, identity, messages, reply);
        PRAGMA user_version = 1""",
}


def _seen(folder):
    def look(path):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        return content, status.st_mode, status.st_mtime_ns

    return {path.name: look(path) for path in [folder, *folder.iterdir()]}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("kind", [*FOREIGN, *DATABASES])
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path, kind, read_only):
    path = tmp_path / "hers.sqlite"
    if kind in FOREIGN:
        FOREIGN[kind](path)
    else:
        _database(path, *DATABASES[kind].split(";"))
    before = _seen(tmp_path)
    with (
        pytest.raises(InputError, match=r"hers\.sqlite: (?:not )?a journal") as told,
        Journal(path, read_only=read_only),
    ):
        pass
    reason = kind if kind in FOREIGN else "another program|layout 1"
    assert re.search(reason, str(told.value))
    assert re.search("Nothing in it was changed|--out", str(told.value))
    assert _seen(tmp_path) == before


def test_a_journal_at_a_place_that_can_not_be_read_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolbankError, match="journal can't be used") as told,
        Journal(tmp_path / "file" / "journal.sqlite"),
    ):
        pass
    assert "file/journal.sqlite" in str(told.value)
