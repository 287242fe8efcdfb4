import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS
from tests.servers.named import GRANTS, read_line
from toolbank.sources.collect import recognise
from toolbank.sources.mcp import require_consent_to_read
from toolbank.sources.mcp.command_line import hide_in_command
from toolbank.sources.mcp.settings import McpSource, Server
from toolbank.system.consent import explain_missing
from toolbank.system.errors import InputError


def read_cases(name):
    file = CORPUS / "mcp_commands" / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


LONG = {"command": ["x", f"{'a' * 140_000} TOKEN=evil"], "env": {}, "shown": "TOKEN="}


def question(command, environment):
    server = Server("a", tuple(command), environment)
    line = str(server.grant_to_start)
    assert f":\n  {line}\n" in explain_missing([server.grant_to_start], "mine")
    return line


@pytest.mark.parametrize("case", [*read_cases("hostile"), LONG])
def test_what_decides_what_is_started_is_shown(case):
    shown = question(case["command"], case["env"]).replace("'\"'\"'", "'")
    assert case["shown"] in shown


@pytest.mark.parametrize("case", read_cases("honest"))
def test_a_secret_is_shown_as_its_length(case):
    command, environment, secret = case["command"], case["env"], case["hidden"]
    shown = question(command, environment)
    assert secret not in shown
    assert "<secret of " in shown and "sha256:" not in shown
    visible = [word for word in command if secret not in word]
    assert all(shlex.quote(word) in shown for word in visible)
    assert all(name in shown for name in environment)


TYPED = [
    [*case["command"], case["hidden"]]
    for case in read_cases("honest")
    if any(case["hidden"] in word for word in case["command"])
]


@pytest.mark.parametrize(
    "case",
    [
        *TYPED,
        ["env", "SHOP_PASSWORD=hunter2", "python", "srv.py", "hunter2"],
        ["podman", "run", "--env", "PAT=glpat-a1B2c3D4e5", "shop", "glpat-a1B2c3D4e5"],
        ["npx", "srv", "mysql://me:hunter2@db.example/shop", "hunter2"],
        ["npx", "mcp-remote", "https://h.example/mcp?api_key=hunter2", "hunter2"],
    ],
)
def test_a_secret_in_a_command_is_refused_where_it_would_be_kept(case):
    *command, secret = case
    with pytest.raises(InputError) as refused:
        recognise(shlex.join(["env", *command]))
    said = str(refused.value)
    assert secret not in said
    place = next(n for n, word in enumerate(command, 2) if secret in word)
    assert f"word {place}" in said and "`env" in said and "`config`" in said


@pytest.mark.parametrize("command", read_cases("plain"), ids=" ".join)
def test_a_command_without_a_secret_is_not_refused(command):
    assert McpSource(command=command).command == tuple(command)


def test_a_command_that_is_not_found_is_shown_without_its_secret():
    with pytest.raises(InputError) as refused:
        recognise("SHOP_TOKEN=hunter2 no-such-server --api-key open-sesame")
    assert "no-such-server" in str(refused.value)
    assert not any(one in str(refused.value) for one in ("hunter2", "open-sesame"))


def test_the_question_says_how_long_a_hidden_value_is():
    words, variables = hide_in_command(["x", "--token", "abc"], {"KEY": "k" * 1234})
    assert words[2].shown == "<secret of 3 characters>"
    assert dict(variables)["KEY"].shown == "<secret of 1,234 characters>"


@pytest.mark.parametrize("place", ["argument", "variable"])
def test_a_text_that_looks_like_a_hash_is_not_the_hidden_secret(place, monkeypatch):
    def server(value):
        if place == "variable":
            return Server("a", ("x",), {"API_KEY": value})
        return Server("a", ("x", "--api-key", value))

    secret = "sesame-open-yourself"
    hidden = server(f"<secret of {len(secret)} characters>")
    assert str(hidden.grant_to_start) != str(server(secret).grant_to_start)
    with pytest.raises(InputError) as caught:
        require_consent_to_read([server(secret)], "mine")
    monkeypatch.setenv(GRANTS, read_line(str(caught.value)))
    require_consent_to_read([server(secret)], "mine")
    for other in (hidden, server(f"{secret}2")):
        with pytest.raises(InputError):
            require_consent_to_read([other], "mine")


@given(
    st.sampled_from(["sh", "bash", "node", "python3", "perl", "/usr/bin/ruby", "php"]),
    st.sampled_from(["", "TOKEN=", "pass:", "API_KEY: "]),
    st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])),
)
def test_code_of_an_interpreter_is_always_shown(program, before, code):
    option = {"node": "--eval", "php": "-r"}.get(program, "-e")
    option = "-c" if program in ("sh", "bash", "python3") else option
    words, _ = hide_in_command([program, option, before + code], {})
    assert words[2].shown.startswith(before + code)


@given(
    st.sampled_from(["--token", "--password", "-k", "API_KEY=", "--secret="]),
    st.text(st.sampled_from("ab ;|&$`'\"(){}<>\n\\/")),
)
def test_an_argument_with_white_space_or_shell_characters_is_shown(option, value):
    value = f"a{value} ;`"
    words = [option + value] if option.endswith("=") else [option, value]
    words, _ = hide_in_command(["my-server", *words], {})
    assert not any(word.secrets for word in words)


@pytest.mark.parametrize(
    "piece",
    ["-", "a-", "_", "a1", "://a:", "a.", "a/", "$K ", "(", "node ", "a=b ", "@a"],
)
def test_a_long_word_is_looked_through_all_the_same(piece):
    word = piece * (100_000 // len(piece))
    words, _ = hide_in_command(["sh", "-c", word], {"K": "abc", "API_KEY": "abc"})
    assert words[2].shown == word
    hide_in_command(["x", f"x://a:{word} "], {"URL": f"x://a:{word} "})
