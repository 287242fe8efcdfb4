"""Commands are started after the user's word alone."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.named import GRANTS, read_line
from tests.sources.test_mcp_stdio import KIND, LIGHT, refusal
from toolbank.sources.mcp.settings import McpSource, Server
from toolbank.system.consent import is_granted


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLBANK_GRANTS", raising=False)
    file = tmp_path / "my tools.json"
    file.write_text('[{"name": "a", "inputSchema": {"type": "object"}}]')
    return McpSource(command=(sys.executable, "-S", "-I", LIGHT, str(file)))


def test_nothing_is_started_without_the_users_word(source, tmp_path):
    message = refusal(source, tmp_path)
    assert shlex.join(source.command) in message
    assert "export TOOLBANK_GRANTS=" in message
    assert not Path(f"{source.command[4]}.pid").exists()


def test_what_the_message_says_to_type_gives_the_word(source, tmp_path, monkeypatch):
    before = "start python other.py 'a;b'"
    monkeypatch.setenv(GRANTS, before)
    message = refusal(source, tmp_path)
    assert f'export {GRANTS}="${GRANTS}; "' in message
    monkeypatch.setenv(GRANTS, f"{before}; {read_line(message)}")
    assert KIND.read(source, tmp_path).tools


def test_a_command_with_other_arguments_is_another(source, tmp_path, monkeypatch):
    monkeypatch.setenv(
        "TOOLBANK_GRANTS", f"start {shlex.join(source.command[:-1])}\nstart python"
    )
    refusal(source, tmp_path)


def run_on_a_terminal(recipe, said):
    """Reads the sources of a recipe on a terminal where this is typed: exit code, what was shown."""
    theirs, ours = pty.openpty()
    os.write(theirs, said.encode())
    command = ["-m", "toolbank", "run", str(recipe), "--until", "sources", "--out"]
    done = subprocess.run(
        [sys.executable, *command, str(recipe.with_suffix(""))],
        stdin=ours,
        stderr=ours,
        stdout=subprocess.PIPE,
    )
    os.close(ours)
    shown = b""
    try:
        while piece := os.read(theirs, 4096):
            shown += piece
    except OSError:
        # The end of a terminal.
        pass
    os.close(theirs)
    return done.returncode, " ".join(shown.decode().split())


def test_on_a_terminal_it_is_asked_with_the_whole_command(source, tmp_path):
    recipe = tmp_path / "mine.yaml"
    told = {"type": "mcp", "command": list(source.command)}
    recipe.write_text(yaml.safe_dump({"name": "mine", "sources": [told]}))
    code, shown = run_on_a_terminal(recipe, "n\n")
    assert code == 2 and "nothing was started" in shown
    assert shlex.join(source.command).replace(" ", "") in shown.replace(" ", "")
    assert not Path(f"{source.command[4]}.pid").exists()
    code, shown = run_on_a_terminal(recipe, "y\n")
    assert code == 0 and "1 tool" in shown
    assert shown.count("[y/N]") == 1
    assert Path(f"{source.command[4]}.pid").exists()


WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    min_size=1,
)


@given(st.lists(WORDS, min_size=1), st.sampled_from([";", " ; ", "\n"]))
def test_any_commands_can_be_listed(commands, between):
    text = between.join(shlex.join(["start", *command]) for command in commands)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GRANTS, text)
        for command in commands:
            assert is_granted(Server("", tuple(command)).grant_to_start)


def test_a_file_sets_variables_and_folder_in_sight():
    server = Server(
        "a", ("npx", "x y"), {"TOKEN": "sesame", "B": "1"}, folder="/my dir"
    )
    secret = "'<secret of 6 characters>'"
    line = f"start --chdir='/my dir' B=1 TOKEN={secret} npx 'x y'"
    assert str(server.grant_to_start) == line
    assert "sesame" not in repr(server.grant_to_start)
    assert "sesame" not in repr(server) and "x y" not in repr(server)
