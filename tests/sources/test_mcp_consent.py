import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.named import GRANTS, read_line
from tests.sources.mcp_servers import KIND, light, refusal
from tests.terminal_session import answer_on_terminal
from toolbank.sources.mcp.settings import McpSource, Server
from toolbank.system.consent import is_granted


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.delenv(GRANTS, raising=False)
    entry = light(tmp_path, "my tools")
    return McpSource(command=(entry["command"], *entry["args"]))


def test_what_the_message_says_to_type_gives_the_word(source, tmp_path, monkeypatch):
    assert f"export {GRANTS}=" in refusal(source, tmp_path)
    before = "start python other.py 'a;b'"
    monkeypatch.setenv(GRANTS, before)
    message = refusal(source, tmp_path)
    assert shlex.join(source.command) in message
    assert f'export {GRANTS}="${GRANTS}; "' in message
    assert not (tmp_path / "my tools.json.pid").exists()
    monkeypatch.setenv(GRANTS, f"{before}; {read_line(message)}")
    assert KIND.read(source, tmp_path).tools


def run_on_a_terminal(recipe, answer):
    """Read the sources of a recipe on a terminal: exit code, and what was shown."""
    command = ["run", recipe, "--until", "sources", "--out", recipe.with_suffix("")]
    return answer_on_terminal(command, answer)


@pytest.mark.slow
def test_on_a_terminal_it_is_asked_with_the_whole_command(source, tmp_path):
    recipe = tmp_path / "mine.yaml"
    listed = {"type": "mcp", "command": list(source.command)}
    recipe.write_text(yaml.safe_dump({"name": "mine", "sources": [listed]}))
    code, shown = run_on_a_terminal(recipe, "n\n")
    assert code == 2 and "nothing was started" in shown
    assert shlex.join(source.command).replace(" ", "") in shown.replace(" ", "")
    assert not (tmp_path / "my tools.json.pid").exists()
    code, shown = run_on_a_terminal(recipe, "y\n")
    assert code == 0 and "12 tools" in shown
    assert shown.count("[y/N]") == 1
    assert (tmp_path / "my tools.json.pid").exists()


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
    variables = {"TOKEN": "sesame", "B": "1"}
    server = Server("a", ("npx", "x y"), variables, folder="/my dir")
    secret = "'<secret of 6 characters>'"
    line = f"start --chdir='/my dir' B=1 TOKEN={secret} npx 'x y'"
    assert str(server.grant_to_start) == line
    assert "sesame" not in repr(server.grant_to_start)
    assert "sesame" not in repr(server) and "x y" not in repr(server)
