import os

import pytest

from tests.corpus_files import check_collected, corpus_files
from tests.sources.mcp_servers import (
    FAULTS,
    KIND,
    TOOLS,
    grants,
    is_gone,
    light,
    refusal,
)
from toolbank.sources.mcp.settings import McpSource
from toolbank.system.errors import ToolbankError


@pytest.fixture
def start(tmp_path, monkeypatch):

    def start(fault="", tools=TOOLS, env=(), **settings):
        entry = light(tmp_path, "a", fault, tools)
        before = os.environ.get("TOOLBANK_GRANTS", "")
        allowed = before, grants(entry | {"env": dict(env)})
        monkeypatch.setenv("TOOLBANK_GRANTS", "\n".join(allowed))
        command = (entry["command"], *entry["args"])
        settings = {"timeout_s": 20, **settings}
        return McpSource(command=command, env=tuple(env), **settings)

    return start


def test_all_pages_are_read(start, tmp_path):
    read = KIND.read(start(), tmp_path)
    expected = sorted(f"light-server/{t['name']}" for t in TOOLS)
    assert [t.name for t in read.tools] == expected
    assert read.complete
    assert is_gone(tmp_path / "a.json.pid")


@pytest.mark.parametrize("file", corpus_files("mcp"), ids=lambda file: file.name)
def test_a_list_is_read_as_expected(start, tmp_path, file, update_corpus):
    source = start(tools=file.read_text("utf-8"), name="my.server")
    check_collected(file, KIND.read(source, tmp_path), file, update=update_corpus)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_misbehaves_is_one_clear_message(start, tmp_path, fault, capfd):
    seconds = 0.5 if fault == "hangs" else 30
    source = start(fault, name="odd.one", timeout_s=seconds)
    message = refusal(source, tmp_path, None, ToolbankError)
    assert message.startswith("sources: mcp:odd.one: ")
    assert FAULTS[fault] in message
    assert "Traceback" not in message and len(message) < 1000
    assert capfd.readouterr().err == ""
    assert is_gone(tmp_path / "a.json.pid")


@pytest.mark.parametrize(
    ("fault", "said", "tools"),
    [("repeats a cursor", "cursor repeats", 5), ("pages for ever", "endless pages", 1)],
)
def test_of_endless_pages_the_new_ones_are_read(start, tmp_path, fault, said, tools):
    read = KIND.read(start(fault), tmp_path)
    assert [t.call.tool for t in read.tools] == [t["name"] for t in TOOLS[:tools]]
    [problem] = read.problems
    assert said in problem and f"read so far: {tools}" in problem
    assert not read.info["left_out"]


@pytest.mark.parametrize("fault", ["greets", "floods stderr"])
def test_talk_beside_the_protocol_does_no_harm(start, tmp_path, fault, capfd):
    assert len(KIND.read(start(fault), tmp_path).tools) == len(TOOLS)
    assert capfd.readouterr().err == ""


def test_what_a_server_has_started_ends_with_it(start, tmp_path):
    assert KIND.read(start("stays"), tmp_path).tools
    assert is_gone(tmp_path / "a.json.pid")
    assert is_gone(tmp_path / "a.json.child")


def test_a_program_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLBANK_GRANTS", "start 'no such program' a")
    source = McpSource(command=("no such program", "a"))
    refusal(source, tmp_path, "cannot be started: No such file.*: no such program; ")


def test_a_command_sees_the_variables_of_its_recipe(start, tmp_path, monkeypatch):
    token = {"TOKEN": "s3cret-token-value"}
    monkeypatch.setenv("TOKEN", token["TOKEN"])
    refusal(start("dies at start"), tmp_path, "no licence in here", ToolbankError)
    source = start("dies at start", env=token)
    refusal(source, tmp_path, r"no licence in \*\*\*", ToolbankError)
    monkeypatch.delenv("TOKEN")
    refusal(source, tmp_path, "TOKEN is not set")
