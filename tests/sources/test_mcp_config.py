"""Servers of a client's own file, which is full of secrets."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict

import pytest
import yaml

from tests.corpus_files import check_expected, corpus_files
from tests.servers.named import GRANTS, grant_of, read_line
from tests.sources.test_mcp_http import answering
from tests.sources.test_mcp_stdio import FAULTS, KIND, LIGHT, TOOLS, refusal
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.sources.mcp.client_config import read_client_config
from toolbank.sources.mcp.settings import McpSource
from toolbank.system.errors import InputError

SECRETS = {
    "env": "env-s3cret-value-0001",
    "argument": "arg-s3cret-value-0002",
    "header": "header-s3cret-value-0003",
    "query": "query-s3cret-value-0004",
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a client's file, and trusts its commands."""
    monkeypatch.delenv("TOOLBANK_GRANTS", raising=False)

    def write(entries, key="mcpServers", trusted=True, **settings):
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({key: entries}))
        if trusted:
            lines = [
                shlex.join(
                    [
                        "start",
                        *(f"{k}={v}" for k, v in sorted(s.get("env", {}).items())),
                        s["command"],
                        *s["args"],
                    ]
                )
                for s in entries.values()
                if "command" in s
            ]
            monkeypatch.setenv("TOOLBANK_GRANTS", "\n".join(lines))
        return McpSource(config=file, **{"timeout_s": 60, **settings})

    return write


@pytest.fixture
def light(tmp_path):
    """Makes the entry of a server without a library."""

    def make(name, fault="", tools=TOOLS, **more):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(tools))
        args = ["-S", "-I", LIGHT, str(file), fault, "5"]
        return {"command": sys.executable, "args": args, **more}

    return make


@pytest.mark.parametrize(
    "file", corpus_files("mcp_clients"), ids=lambda file: file.name
)
def test_a_file_is_read_as_expected(file, monkeypatch, update_corpus):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("MY_TOKEN", "value-of-my-token")
    read = read_client_config(file, None)
    found = {
        "servers": [
            {**asdict(server), "grants": list(map(str, server.grants))}
            for server in read.servers
        ],
        "wrong": read.wrong,
        "disabled": read.disabled,
    }
    expected = file.with_name(f"{file.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_each_server_is_the_prefix_of_its_tools(write, light, tmp_path, key):
    read = KIND.read(write({"Two words": light("a"), "b": light("b")}, key), tmp_path)
    assert len(read.tools) == 2 * len(TOOLS)
    assert {tool.name.partition("/")[0] for tool in read.tools} == {"Two words", "b"}
    assert {tool.source for tool in read.tools} == {"mcp:Two words", "mcp:b"}
    assert read.tools[0].call.source == "Two words"


def test_only_wanted_servers_are_started(write, light, tmp_path):
    source = write({"a": light("a"), "b": light("b")}, servers=("b",))
    assert {t.call.source for t in KIND.read(source, tmp_path).tools} == {"b"}
    assert not (tmp_path / "a.json.pid").exists()
    source = write({"a": light("a"), "b": light("b")}, servers=("c",))
    refusal(source, tmp_path, r"no server 'c'\..*: a, b")


def test_of_several_servers_those_that_work_are_read(write, light, tmp_path):
    servers = {fault: light(fault, fault) for fault in FAULTS if fault != "hangs"}
    more = {"no place": {"env": {}}, "off": {"command": "a", "disabled": True}}
    source = write({"works": light("works"), **servers})
    entries = {"works": light("works"), **servers, **more}
    source.config.write_text(json.dumps({"mcpServers": entries}))
    read = KIND.read(source, tmp_path)
    assert {tool.call.source for tool in read.tools} == {"works"}
    assert not read.complete
    said = dict(line.split(": ", 2)[1:] for line in read.problems)
    for fault in servers:
        assert FAULTS[fault] in said[fault]
    assert "`url`" in said["no place"]
    assert "off" not in said
    assert any("off" in note for note in read.notes)


def test_a_variable_goes_to_the_host_of_a_file_after_the_users_word(
    write, tmp_path, monkeypatch
):
    monkeypatch.setenv("MY_TOKEN", SECRETS["header"])
    with answering(401) as (url, asked):
        headers = {"Authorization": "Bearer ${MY_TOKEN}"}
        source = write({"far": {"type": "http", "url": url, "headers": headers}})
        refusal(source, tmp_path, "needs your permission to send")
        assert not asked
        monkeypatch.setenv("TOOLBANK_GRANTS", grant_of(url, "MY_TOKEN"))
        refusal(source, tmp_path, "requires a token")
        assert asked[0][1]["Authorization"] == f"Bearer {SECRETS['header']}"


def test_nothing_of_a_file_is_copied_or_said(write, light, tmp_path, capfd, caplog):
    caplog.set_level("DEBUG")

    def reflect(said):
        return json.dumps({"a": f"{said} {list(SECRETS.values())}"}).encode()

    echo = {"env": {"TOKEN": SECRETS["env"]}}
    with answering(500, reflect, Content_Type="application/json") as (url, asked):
        far = {
            "url": f"{url}?key={SECRETS['query']}",
            "headers": {"Authorization": f"Bearer {SECRETS['header']}"},
        }
        dying = light("dying", "dies at start", **echo)
        dying["args"] += ["--key", SECRETS["argument"]]
        write({"works": light("works", **echo), "far": far, "dying": dying})
        recipe = tmp_path / "mine.yaml"
        recipe.write_text(
            yaml.safe_dump(
                {
                    "name": "mine",
                    "sources": [{"type": "mcp", "config": "servers.json"}],
                    "generate": {"engine": "rules", "queries": 10},
                }
            )
        )
        out = tmp_path / "run"
        run_recipe(load_recipe(str(recipe)), out, until="sources")
        assert any(SECRETS["query"] in path for path, *_ in asked)
    said = capfd.readouterr()
    shown = said.out + said.err + caplog.text
    assert "far: it returned HTTP status 500" in " ".join(shown.split())
    files = [path for path in out.rglob("*") if path.is_file()]
    assert any(path.name == "tools.parquet" for path in files)
    for secret in SECRETS.values():
        assert secret not in shown
        for path in files:
            assert secret.encode() not in path.read_bytes(), path


def test_the_word_is_asked_for_without_what_looks_secret(write, light, tmp_path):
    steers = {
        "GIT_CONFIG_VALUE_0": "Authorization: Basic c2Vj",
        "PIP_INDEX_URL": "https://me:c2Vj@example.org/simple",
    }
    entry = light("a", env={"TOKEN": SECRETS["env"], **steers})
    secret = SECRETS["argument"].replace("-", "")
    entry["args"] += [f"--key={secret}", f"https://example.com/?key={secret}"]
    shown = refusal(write({"a": entry}, trusted=False), tmp_path)
    assert "TOKEN='<secret of " in shown and "s3cret" not in shown
    assert "GIT_CONFIG_VALUE_0='Authorization: Basic <secret" in shown
    assert "c2Vj" not in shown and "@example.org" in shown
    assert "--key=<secret" in shown and "https://example.com/?key=<secret" in shown


@pytest.mark.parametrize(
    ("given", "secret", "shown"),
    [
        ({"env": {"TOKEN": "s3c4"}}, "s3c4", "***"),
        ({"env": {"TOKEN": "open"}}, "open", "***"),
        ({"env": {"ANY": "q7Xk2vR9pL4mZ8w"}}, "q7Xk2vR9pL4mZ8w", "***"),
        ({"args": ["--local-timezone", "Asia/Tokyo"]}, "Tokyo", "Tokyo"),
        ({"args": ["--city", "Porto-Novo"]}, "Porto-Novo", "Porto-Novo"),
        ({"env": {"ROOT_FOLDER": "srv_2024"}}, "srv_2024", "srv_2024"),
        ({"env": {"TOKEN": "abc"}}, "abc", "abc"),
        ({"env": {"LOG_LEVEL": "info", "TOKEN": "inf0"}}, "info", "info"),
        ({"env": {"DB": "postgres://me:s3c4@h/d"}}, "s3c4", "***"),
        ({"args": ["--api-key", "sesam"]}, "sesam", "***"),
        ({"args": ["--password=open"]}, "open", "***"),
        ({"args": ["-e", "KEY=s3c4"]}, "s3c4", "***"),
        ({"env": {"TOKEN": "t0k3n"}, "args": ["-e", "TOKEN"]}, "TOKEN", "TOKEN"),
    ],
)
def test_what_a_server_says_again_of_its_secrets_is_hidden(
    write, light, tmp_path, given, secret, shown
):
    schema = {"type": "object", "properties": {f"p_{secret}": {"enum": [secret]}}}
    tools = [
        {"name": "a", "description": f"Uses {secret}.", "inputSchema": schema},
        {"name": "b", "description": "Uses nothing."},
        {"name": f"c_{secret}", "description": "Called by it."},
    ]
    entry = light("works", tools=tools, env=given.get("env", {}))
    entry["args"] += given.get("args", [])
    read = KIND.read(write({"works": entry}), tmp_path)
    a, _, *c = read.tools
    assert a.summary == f"Uses {shown}."
    assert a.parameters["properties"] == {f"p_{shown}": {"enum": [shown]}}
    said = "\n".join((*read.notes, *read.problems))
    if secret == shown:
        assert [tool.name for tool in c] == [f"works/c_{secret}"] and "***" not in said
    else:
        assert not c and "may be secret" in said
        assert "*** replaces" in said and secret not in said
        assert secret not in json.dumps(read.info)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/opt/bin"),
        ("NODE_OPTIONS", "--require ./a.js"),
        ("CARGO_BUILD_RUSTC", "./rustc"),
        ("GIT_CONFIG_KEY_3", "core.sshCommand"),
        ("PSQLRC", "/tmp/a.sql"),
        ("ALL_PROXY", "socks5://10.0.0.9:1080"),
        ("MY_OWN", "anything at all"),
        ("spring.profiles.active", "UTC"),
        ("INPUT_MY-VAR", "UTC"),
        ("A(x86)", "UTC"),
    ],
)
def test_every_value_is_shown_and_another_one_is_asked_for(
    write, light, tmp_path, monkeypatch, name, value
):
    entry = light("a", env={name: value, "TOKEN": SECRETS["env"]})
    source = write({"a": entry}, trusted=False)
    shown = refusal(source, tmp_path)
    assert f"{name}={shlex.quote(value)}" in shown and SECRETS["env"] not in shown
    paste(monkeypatch, shown)
    assert KIND.read(source, tmp_path).tools
    for old in (value, SECRETS["env"]):
        changed = json.dumps({"mcpServers": {"a": entry}}).replace(old, f"{old}1")
        source.config.write_text(changed)
        refusal(source, tmp_path)


def paste(monkeypatch, message):
    """Does what the last line of a message says to type, and fills in the secret."""
    monkeypatch.setenv(
        GRANTS, read_line(message).replace("<secret of 4 characters>", "open")
    )


@pytest.mark.parametrize("argument", ["--seat=7A", "--api-key=open"])
def test_a_changed_argument_is_asked_for(write, light, tmp_path, monkeypatch, argument):
    entry = light("a")
    entry["args"].append(argument)
    source = write({"a": entry}, trusted=False)
    paste(monkeypatch, refusal(source, tmp_path))
    assert KIND.read(source, tmp_path).tools
    entry["args"][-1] = f"{argument}s"
    source.config.write_text(json.dumps({"mcpServers": {"a": entry}}))
    refusal(source, tmp_path)


def test_a_value_with_a_line_of_its_own_can_not_fake_the_question(
    write, light, tmp_path
):
    values = {"A": "x\n  harmless\nStart it?", "B": "x\\n  harmless\\nStart it?"}
    shown = []
    for value in values.values():
        source = write({"a": light("a", env={"ANY": value})}, trusted=False)
        shown.append(refusal(source, tmp_path).splitlines()[1])
    assert all("harmless" in line for line in shown) and shown[0] != shown[1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"env": {"docker run --rm -e TZ": "UTC"}}, "docker run --rm -e TZ"),
        ({"env": {"npx -y good-server #": "1"}}, "npx -y good-server #"),
        ({"env": {"it's": "1"}}, "it's"),
        ({"command": "ROOT=/data"}, "ROOT=/data"),
    ],
)
def test_what_reads_like_another_command_is_refused_whatever_was_trusted(
    write, light, tmp_path, monkeypatch, given, told
):
    entry = {**light("a"), **given}
    source = write({"a": entry}, trusted=False)
    line = shlex.join([entry["command"], *entry["args"]])
    trusted = f"start {line}; start docker run --rm -e TZ=UTC {line}"
    monkeypatch.setenv("TOOLBANK_GRANTS", trusted)
    assert told in refusal(source, tmp_path, "not the name of a variable|reads like")


def test_what_a_recipe_passes_on_is_shown(light, tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLBANK_GRANTS", raising=False)
    monkeypatch.setenv("SSLKEYLOGFILE", "/tmp/keys.log")
    monkeypatch.setenv("MY_TOKEN", "sesame")
    entry = light("a")
    command = (entry["command"], *entry["args"])
    source = McpSource(command=command, env=("SSLKEYLOGFILE", "MY_TOKEN"))
    shown = refusal(source, tmp_path)
    assert "SSLKEYLOGFILE=/tmp/keys.log" in shown and "sesame" not in shown
    # As a script gives it, whose tokens are others each day.
    line = f"start MY_TOKEN=sesame SSLKEYLOGFILE=/tmp/keys.log {shlex.join(command)}"
    monkeypatch.setenv("TOOLBANK_GRANTS", line)
    assert KIND.read(source, tmp_path).tools


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, '"mcpServers"') for text in ("[]", "{}", '{"mcpServers": []}')),
        *((text, "not valid JSON") for text in ("", "{")),
        ('{"mcpServers": {"a": {"disabled": true}}}', r"disabled \(a\).*`servers`"),
    ],
)
def test_a_file_without_servers_is_refused(tmp_path, text, said):
    file = tmp_path / "servers.json"
    file.write_text(text)
    refusal(McpSource(config=file), tmp_path, rf"servers\.json.*: .*{said}")


def test_the_file_may_lie_in_the_home_folder(write, light, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    recipe = tmp_path / "recipes" / "mine.yaml"
    recipe.parent.mkdir()
    told = "name: mine\nsources: [{type: mcp, config: HOME/servers.json}]\n"
    recipe.write_text(told.replace("HOME", "~"))
    [source] = load_recipe(str(recipe)).recipe.sources
    assert source.config == tmp_path / "servers.json"
    recipe.write_text(told.replace("HOME", "~nobody_of_this_name"))
    with pytest.raises(InputError, match="cannot be a path"):
        load_recipe(str(recipe))


def test_plan_and_preview_start_nothing(write, light, tmp_path):
    from toolbank.commands.preview import preview_attempts
    from toolbank.run.plan import describe_plan

    write({"a": light("a")})
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nsources: [{type: mcp, config: servers.json}]\n"
        "generate: {engine: rules, queries: 10}\n"
    )
    loaded = load_recipe(str(recipe))
    with pytest.raises(InputError, match=r"starts .*light_mcp.* Read them first: "):
        describe_plan(loaded, tmp_path / "run")
    with pytest.raises(InputError, match=r"starts .*light_mcp"):
        list(preview_attempts(loaded.recipe, tmp_path / "run", 2))
    assert not (tmp_path / "a.json.pid").exists()
    run_recipe(loaded, tmp_path / "run", until="sources")
    (tmp_path / "a.json.pid").unlink()
    assert "12" in describe_plan(loaded, tmp_path / "run")
    assert not (tmp_path / "a.json.pid").exists()
