"""What people asked and chose is logged, and read as labelled requests."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.search.packed.packs import TOOLS, write_pack
from tests.search.serve.servers import serving
from toolbank.datasets.jsonl import read_labelled
from toolbank.search.finder import Answer, Hit
from toolbank.search.serve.feedback import FeedbackLog
from toolbank.system.errors import InputError


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_choices_become_labelled_requests(tmp_path):
    write_pack(tmp_path / "finder")
    log = tmp_path / "log.jsonl"
    with serving(tmp_path / "finder", "--log", log, "--log-text") as server:
        assert server.ask("/facets").json["logs"] is True
        search = server.ask("/search?q=send+a+letter").json["id"]
        server.ask("/search?q=zebra")
        chosen = {"search": search, "tool": "mail.read"}
        for _ in range(2):
            assert server.ask("/feedback", chosen).json == {"logged": True}
        chosen["tool"] = "mail.send"
        assert server.ask("/feedback", chosen).json == {"logged": True}
        for wrong in (
            {"search": "x", "tool": "mail.read"},
            {"search": search, "tool": "door.bell"},
        ):
            assert server.ask("/feedback", wrong).error == "not_found"
        assert server.ask("/feedback", {"search": 3}).error == "bad_request"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    first, nothing, choice, other = read(log)
    assert first["event"] == "search" and first["found"] == ["mail.send", "mail.read"]
    assert nothing["found"] == []
    assert (choice["rank"], other["rank"]) == (2, 1)
    labelled = read_labelled(log)
    assert [(query.query, query.tools) for query in labelled.queries] == [
        ("send a letter", (name,)) for name in ("mail.read", "mail.send")
    ]


@pytest.mark.parametrize("with_text", [True, False])
def test_a_user_says_that_no_tool_fits(tmp_path, with_text):
    write_pack(tmp_path / "finder")
    log = tmp_path / "log.jsonl"
    options = ["--log", log, *(["--log-text"] if with_text else [])]
    with serving(tmp_path / "finder", *options) as server:
        search = server.ask("/search?q=send+a+letter").json["id"]
        for _ in range(2):
            said = server.ask("/feedback", {"search": search, "tool": ""})
            assert said.json == {"logged": True}
        assert server.ask("/feedback", {"search": "x", "tool": ""}).error == "not_found"
    assert [row["event"] for row in read(log)] == ["search", "none"]
    found = [query.query for query in read_labelled(log).missing]
    assert found == (["send a letter"] if with_text else [])


def test_a_log_is_bounded_and_has_no_text_unless_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("toolbank.search.serve.feedback._MOST_BYTES", 2_000)
    log = FeedbackLog(tmp_path / "log.jsonl", with_text=False)
    for n in range(100):
        log.searched("home", f"request {n}", Answer((Hit(TOOLS[0], 0.5),), True))
    log.close()
    files = sorted(tmp_path.iterdir())
    names = ["log.jsonl", "log.jsonl.1", "log.jsonl.2", "log.jsonl.3"]
    assert [path.name for path in files] == names
    for path in files:
        assert path.stat().st_size <= 2_000
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "request" not in path.read_text()
        assert read(path)[0]["found"] == [TOOLS[0].name]


def test_what_cannot_be_logged_is_told_once_and_without_the_request(tmp_path, capfd):
    log = FeedbackLog(tmp_path / "log.jsonl", with_text=True)
    for query in ("\ud800 secret", "\ud800 secret", "a song"):
        log.searched("home", query, Answer((), True))
    log.close()
    told = capfd.readouterr().err
    assert told.count("cannot write the log") == 1
    assert "Traceback" not in told and "secret" not in told
    assert log.lost == 2
    assert [row["query"] for row in read(tmp_path / "log.jsonl")] == ["a song"]


@pytest.mark.parametrize("kind", ["link", "pipe", "device", "nowhere"])
def test_a_log_that_is_no_file_of_its_own_is_refused(tmp_path, kind):
    path, other = tmp_path / "log.jsonl", tmp_path / "other"
    other.write_text("mine")
    other.chmod(0o644)
    path.symlink_to(other) if kind == "link" else os.mkfifo(path)
    path = {"device": Path("/dev/null"), "nowhere": tmp_path / "no/log"}.get(kind, path)
    with pytest.raises(InputError, match=path.name):
        FeedbackLog(path, with_text=False)
    assert stat.S_IMODE(other.stat().st_mode) == 0o644
