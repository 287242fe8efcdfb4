"""Journals that earlier versions left: nothing that was paid for is asked again.

Those in `data` were written by the code of their time: `layout_2` by a whole run (6 queries), and
another of the same folder at another temperature (3 queries); `layout_3` has the same exchanges.
"""

import gzip
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.chat import closed_url
from tests.world import SHOP
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import generate
from toolbank.system.errors import ToolbankError

DATA = Path(__file__).parent / "data"
QUERIES = [tuple(row) for row in json.loads((DATA / "queries.json").read_text())]
WARM = '{"engine": "openai", "model": "m", "temperature": 0.9, "max_tokens": 4096}'
COOL = WARM.replace("0.9", "0.2")


def config():
    """The recipe of those runs, with an endpoint that never answers."""
    engine = {"engine": "openai", "model": "m", "base_url": closed_url()}
    offers = {"queries": 6, "offered": 4, "max_tools": 3, "examples": 1}
    return GenerateConfig(**engine, **offers, retries=0, max_outage=0)


def unpack(name, path):
    path.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return path


@pytest.fixture(params=["layout_2", "layout_3"])
def journal_file(tmp_path, monkeypatch, request):
    # The prompts of those runs lie there too.
    monkeypatch.chdir(DATA)
    return unpack(f"{request.param}.sqlite", tmp_path / "journal.sqlite")


def test_an_unchanged_recipe_asks_nothing_again(journal_file):
    for _ in range(2):
        with Journal(journal_file) as journal:
            replies = len(journal)
            made = generate(SHOP, config(), domain="shop", seed=0, journal=journal)
            assert len(journal) == replies == 22
        assert not made.lacks
        assert made.value.counts["rejected"] == {"not-json": 3}
        assert [
            (query.id, query.query, list(query.provenance.requests))
            for query in made.value.queries
        ] == QUERIES


def test_what_was_asked_and_what_failed_can_be_read(journal_file):
    before = journal_file.read_bytes()
    with Journal(journal_file, read_only=True) as journal:
        usage = journal.usage()
        entries = list(journal.entries())
        failures = list(journal.failures())
        attempts = list(journal.attempts(["write"]))
    assert [(one.step, one.identity, one.replies) for one in usage if one.replies] == [
        ("write", WARM, 9),
        ("write", COOL, 4),
        ("polish", WARM, 6),
        ("polish", COOL, 3),
    ]
    assert sum(one.prompt_tokens for one in usage) == 22 * 7
    assert len(entries) == 22
    assert all(
        ("# Draft" in one.messages[0]["content"]) == (one.step == "polish")
        for one in entries
    )
    assert attempts == sorted({entry.attempt for entry in entries})
    assert sorted(failure.reason for failure in failures) == ["bad-request", "http-503"]
    assert journal_file.read_bytes() == before


def content(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_a_row_that_can_not_be_converted_leaves_the_file_as_it_was(tmp_path):
    path = unpack("layout_2.sqlite", tmp_path / "journal.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE replies SET messages = x'ffff' WHERE attempt = 2")
    before = content(path)
    with pytest.raises(ToolbankError, match="damaged"), Journal(path):
        pass
    assert content(path) == before


@pytest.mark.parametrize("name", ["layout_2", "layout_3"])
def test_a_kill_while_a_journal_is_taken_over_leaves_it_as_it_was(tmp_path, name):
    path = unpack(f"{name}.sqlite", tmp_path / "journal.sqlite")
    before = content(path)
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from toolbank.llm.journal import Journal, migration

make_row, calls = migration.make_row, []

def die_midway(*arguments):
    calls.append(0)
    if len(calls) == 15:
        os.kill(os.getpid(), 9)
    return make_row(*arguments)

migration.make_row = die_midway
with Journal(Path({str(path)!r})):
    pass
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert content(path) == before
    with Journal(path) as journal:
        assert len(journal) == 22


def test_a_journal_of_version_0_7_that_was_killed_at_its_start_is_known(tmp_path):
    """All that it holds is in its write-ahead file."""
    path, left = unpack("0.7.sqlite", tmp_path / "0.7.sqlite"), tmp_path / "left.sqlite"
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(left)) as new:
        new.execute("PRAGMA journal_mode = WAL")
        for statement in old.iterdump():
            new.execute(statement)
        new.execute("PRAGMA user_version = 2")
        for end in ("", "-wal"):
            killed = tmp_path / f"killed.sqlite{end}"
            killed.write_bytes(Path(f"{left}{end}").read_bytes())
    with Journal(tmp_path / "killed.sqlite") as journal:
        assert len(journal) == 3
