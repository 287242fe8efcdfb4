"""Tools of MCP servers that are started, and what servers do wrong."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from tests.corpus_files import check_collected, corpus_files
from toolbank.sources import SOURCES
from toolbank.sources.mcp.settings import McpSource
from toolbank.system.errors import InputError, ToolbankError

KIND = SOURCES.find("mcp", "")
LIGHT = str(Path(__file__).with_name("light_mcp.py"))
TOOLS = [
    {
        "name": f"t{number}",
        "description": f"Does {number}.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
    }
    for number in range(12)
]


@pytest.fixture
def light(tmp_path, monkeypatch):
    """Makes the source of a server without a library; all commands are trusted here."""

    def make(tools=TOOLS, fault="", page=5, **settings):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        file.write_text(tools if isinstance(tools, str) else json.dumps(tools))
        command = (sys.executable, "-S", "-I", LIGHT, str(file), fault, str(page))
        trust(monkeypatch, command)
        return McpSource(command=command, **{"timeout_s": 20, **settings})

    return make


def trust(monkeypatch, command, **environment):
    before = os.environ.get("TOOLBANK_GRANTS", "")
    values = [f"{name}={value}" for name, value in environment.items()]
    line = f"{before};{shlex.join(['start', *values, *command])}"
    monkeypatch.setenv("TOOLBANK_GRANTS", line)


def refusal(source, folder, match="needs your permission", error=InputError):
    """The message with which a source is refused."""
    with pytest.raises(error, match=match) as caught:
        KIND.read(source, folder)
    return str(caught.value)


def is_gone(file):
    """Whether the process that wrote this file with its number is no more."""
    number = int(Path(file).read_text())
    for _ in range(100):
        try:
            # A process that nobody has waited for yet is there, and does nothing.
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return True
        if state[0] == "Z":
            return True
        time.sleep(0.01)
    return False


def pid_file(source):
    return f"{source.command[4]}.pid"


def test_all_pages_are_read(light, tmp_path):
    source = light(page=5)
    read = KIND.read(source, tmp_path)
    assert [t.name for t in read.tools] == sorted(
        f"light-server/{t['name']}" for t in TOOLS
    )
    assert read.complete
    assert is_gone(pid_file(source))


@pytest.mark.parametrize("file", corpus_files("mcp"), ids=lambda file: file.name)
def test_a_list_is_read_as_expected(light, tmp_path, file, update_corpus):
    source = light(file.read_text("utf-8"), name="my.server")
    read = KIND.read(source, tmp_path)
    check_collected(file, read, file, update=update_corpus)


FAULTS = {
    "dies at start": "(exit code 3)",
    "dies in the middle": "(signal 9)",
    "floods stdout": "it floods stdout",
    "endless line": "over 32 MB",
    "huge message": "over 32 MB",
    "wrong answer": "its tools are not a list",
    "error": "no database (code -32000)",
    "not JSON-RPC": "stdout is not a message",
    "cursor is a number": "the protocol",
    "hangs": "within 0.5 seconds (timeout_s)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_misbehaves_is_one_clear_message(light, tmp_path, fault, capfd):
    seconds = 0.5 if fault == "hangs" else 30
    source = light(fault=fault, name="odd.one", timeout_s=seconds)
    message = refusal(source, tmp_path, None, ToolbankError)
    assert message.startswith("sources: mcp:odd.one: ")
    assert FAULTS[fault] in message
    assert "Traceback" not in message and len(message) < 1000
    assert capfd.readouterr().err == ""
    assert is_gone(pid_file(source))


@pytest.mark.parametrize(
    ("fault", "said", "tools"),
    [
        ("repeats a cursor", "its cursor repeats", 5),
        ("pages for ever", "endless pages", 1),
    ],
)
def test_of_pages_without_end_those_that_are_new_are_read(
    light, tmp_path, fault, said, tools
):
    read = KIND.read(light(fault=fault), tmp_path)
    assert [t.call.tool for t in read.tools] == [t["name"] for t in TOOLS[:tools]]
    [problem] = read.problems
    assert said in problem and f"read so far: {tools}" in problem
    assert not read.info["left_out"]


@pytest.mark.parametrize("fault", ["greets", "floods stderr"])
def test_talk_beside_the_protocol_does_no_harm(light, tmp_path, fault, capfd):
    assert len(KIND.read(light(fault=fault), tmp_path).tools) == len(TOOLS)
    assert capfd.readouterr().err == ""


def test_what_a_server_has_started_ends_with_it(light, tmp_path):
    source = light(fault="stays")
    assert KIND.read(source, tmp_path).tools
    assert is_gone(pid_file(source))
    assert is_gone(f"{source.command[4]}.child")


def test_a_program_that_is_not_there_is_named(tmp_path, monkeypatch):
    source = McpSource(command=("no such program", "a"))
    trust(monkeypatch, source.command)
    said = "cannot be started: No such file.*: no such program; give the program"
    refusal(source, tmp_path, said)


def test_a_command_sees_the_variables_that_the_recipe_names_and_no_others(
    light, tmp_path, monkeypatch
):
    monkeypatch.setenv("OTHER", "other-secret-value")
    monkeypatch.setenv("TOKEN", "s3cret-token-value")
    dying = light(fault="dies at start")
    refusal(dying, tmp_path, "no licence in here", ToolbankError)
    source = light(fault="dies at start", env=("TOKEN",))
    trust(monkeypatch, source.command, TOKEN="s3cret-token-value")
    refusal(source, tmp_path, r"no licence in \*\*\*", ToolbankError)
    monkeypatch.delenv("TOKEN")
    refusal(source, tmp_path, "TOKEN is not set")
