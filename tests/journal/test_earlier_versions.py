"""Journals that earlier versions left: nothing that was paid for is asked again.

Those in `data` were written by the code of their time: `0.4` by a whole run (6 queries), and another
of the same folder at another temperature (3 queries); `layout_1` has the same exchanges.
"""

import gzip
import json
from pathlib import Path

import pytest

from tests.chat_server import closed_url
from toolbank.bank.records import Tool
from toolbank.generate.config import GenerateConfig
from toolbank.generate.loop import generate
from toolbank.journal import Journal

DATA = Path(__file__).parent / "data"
QUERIES = [tuple(row) for row in json.loads((DATA / "queries.json").read_text())]
WARM = '{"engine": "openai", "model": "m", "temperature": 0.9, "max_tokens": 4096}'
COOL = WARM.replace("0.9", "0.2")
TOOLS = [
    Tool(
        name=f"shop.{verb}_{noun}",
        kind="function",
        summary=f"{verb.title()} the {noun} of a customer.",
    )
    for verb in ("find", "total", "list", "merge")
    for noun in ("orders", "letters", "returns", "prices")
]


def config(**settings):
    """The recipe of those runs."""
    return GenerateConfig(
        **{
            "engine": "openai",
            "model": "m",
            "base_url": closed_url(),
            "queries": 6,
            "offered": 4,
            "max_tools": 3,
            "examples": 1,
            "retries": 0,
            "max_outage": 0,
            **settings,
        }
    )


def unpack(name, path):
    path.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return path


@pytest.fixture(params=["layout_1", "0.4"])
def journal_file(tmp_path, monkeypatch, request):
    # The prompts of those runs lie there too.
    monkeypatch.chdir(DATA)
    return unpack(f"{request.param}.sqlite", tmp_path / "journal.sqlite")


def test_an_unchanged_recipe_asks_nothing_again(journal_file):
    for _ in range(2):
        with Journal(journal_file) as journal:
            replies = len(journal)
            made = generate(TOOLS, config(), domain="shop", seed=0, journal=journal)
            assert len(journal) == replies == 22
        assert made.complete
        assert made.counts["rejected"] == {"not-json": 3}
        assert [
            (query.id, query.query, list(query.provenance.requests))
            for query in made.queries
        ] == QUERIES


def test_what_was_asked_and_what_failed_can_be_read(journal_file):
    before = journal_file.read_bytes()
    with Journal(journal_file, read_only=True) as journal:
        usage = journal.usage()
        entries = list(journal.entries())
        failures = list(journal.failures())
        attempts = list(journal.attempts(["write"]))
    assert [(one.stage, one.identity, one.replies) for one in usage if one.replies] == [
        ("write", WARM, 9),
        ("write", COOL, 4),
        ("polish", WARM, 6),
        ("polish", COOL, 3),
    ]
    assert sum(one.prompt_tokens for one in usage) == 22 * 7
    assert len(entries) == 22
    assert all(
        ("# Draft" in one.messages[0]["content"]) == (one.stage == "polish")
        for one in entries
    )
    assert attempts == sorted({entry.attempt for entry in entries})
    assert sorted(failure.reason for failure in failures) == ["bad-request", "http-503"]
    assert journal_file.read_bytes() == before
