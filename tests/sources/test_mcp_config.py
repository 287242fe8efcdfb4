import json
import shlex
import time
from dataclasses import asdict

import pytest
import yaml

from tests.corpus_files import check_expected, corpus_files
from tests.servers.named import GRANTS, read_line
from tests.sources.mcp_servers import (
    FAULTS,
    KIND,
    answering,
    grants,
    light,
    list_servers,
    refusal,
)
from toolbank.commands.init import init
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.sources.collect import recognise
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

    def write(entries, granted=True, **settings):
        file = list_servers(tmp_path, entries)
        monkeypatch.setenv(GRANTS, grants(*entries.values()) if granted else "")
        return McpSource(config=file, **{"timeout_s": 60, **settings})

    return write


def write_recipe(folder, file="servers.json"):
    recipe = folder / "mine.yaml"
    source = {"type": "mcp", "config": file}
    generate = {"engine": "rules", "queries": 10}
    recipe.write_text(
        yaml.safe_dump({"name": "mine", "sources": [source], "generate": generate})
    )
    return recipe


@pytest.mark.parametrize("file", corpus_files("mcp_clients"), ids=lambda one: one.name)
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
        "skipped": read.skipped,
        "notes": read.notes,
    }
    expected = file.with_name(f"{file.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


CLIENTS = {
    "settings.json": lambda c, args, env: (
        "// Zed\n"
        + json.dumps(
            {
                "context_servers": {
                    "a": {"command": {"path": c, "args": args, "env": env}}
                }
            }
        )
    ),
    "opencode.jsonc": lambda c, args, env: json.dumps(
        {"mcp": {"a": {"type": "local", "command": [c, *args], "environment": env}}}
    ),
    "config.toml": lambda c, args, env: (
        f"[mcp_servers.a]\ncommand = {json.dumps(c)}\nargs = {json.dumps(args)}\n"
        f"env = {{ TOKEN = {json.dumps(env['TOKEN'])} }}\n"
    ),
    "goose.yaml": lambda c, args, env: yaml.safe_dump(
        {"extensions": {"a": {"type": "stdio", "cmd": c, "args": args, "envs": env}}}
    ),
    "continue.yml": lambda c, args, env: yaml.safe_dump(
        {"mcpServers": [{"name": "a", "command": c, "args": args, "env": env}]}
    ),
    ".claude.json": lambda c, args, env: json.dumps(
        {
            "projects": {
                "/p": {"mcpServers": {"a": {"command": c, "args": args, "env": env}}}
            }
        }
    ),
}


def test_a_server_of_several_projects_is_listed_once(tmp_path):
    commands = {"/p": "one", "/q": "other", "/r": "other"}
    file = tmp_path / ".claude.json"
    entries = {p: {"mcpServers": {"a": {"command": commands[p]}}} for p in commands}
    file.write_text(json.dumps({"projects": entries}))
    servers = read_client_config(file, None).servers
    assert [(one.name, one.command) for one in servers] == [
        ("a", ("one",)),
        ("a (2)", ("other",)),
    ]


@pytest.mark.parametrize("part", ["/* ", '\\"', "//"])
def test_comments_and_texts_that_never_end_are_read_in_time(tmp_path, part):
    file = tmp_path / "mcp.json"
    file.write_text("{" + part * 200_000)
    start = time.monotonic()
    with pytest.raises(InputError, match="not valid JSON"):
        read_client_config(file, None)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", CLIENTS)
def test_files_of_clients_are_read_with_permission(tmp_path, monkeypatch, name, capfd):
    env = {"TOKEN": SECRETS["env"]}
    entry = light(tmp_path, "a", env=env)
    file = tmp_path / name
    file.write_text(CLIENTS[name](entry["command"], entry["args"], env))
    source = recognise(str(file))
    assert source == McpSource(config=file)
    monkeypatch.setenv(GRANTS, "")
    assert SECRETS["env"] not in refusal(source, tmp_path)
    assert not (tmp_path / "a.json.pid").exists()
    monkeypatch.chdir(tmp_path)
    init(name="mine", api=name)
    assert "starts a command" in capfd.readouterr().out
    [written] = load_recipe("mine.yaml").recipe.sources
    monkeypatch.setenv(GRANTS, grants(entry))
    assert {tool.call.source for tool in KIND.read(written, tmp_path).tools} == {"a"}
    assert SECRETS["env"] not in (tmp_path / "mine.yaml").read_text()


def test_what_only_names_servers_is_no_file_of_a_client(tmp_path):
    schema = {"type": "object", "properties": {"mcpServers": {"type": "object"}}}
    tool = {"name": "mcp", "description": "It.", "parameters": schema}
    contents = {"openapi": {"openapi": "3.1.0", "paths": {}, "a": schema}}
    contents |= {"functions": {"mcp": tool, "servers": tool, "extensions": tool}}
    for kind, content in contents.items():
        file = tmp_path / f"{kind}.json"
        file.write_text(json.dumps(content))
        assert recognise(str(file)).type == kind


@pytest.mark.parametrize("name", ["a.toml", "a.yaml", "a.jsonc"])
def test_a_broken_file_is_named_without_its_content(tmp_path, name):
    file = tmp_path / name
    file.write_text("[mcp_servers.a]\nmcp_servers: *s3cret\n\ts3cret = s3cret")
    said = refusal(McpSource(config=file), tmp_path, f"{name}.*: not valid")
    assert "s3cret" not in said


def test_only_wanted_servers_are_started(write, tmp_path):
    entries = {"a": light(tmp_path, "a"), "Two words": light(tmp_path, "b")}
    read = KIND.read(write(entries, servers=("Two words",)), tmp_path)
    assert [t.name for t in read.tools] == sorted(f"Two words/t{n}" for n in range(12))
    assert {t.source for t in read.tools} == {"mcp:Two words"}
    assert read.tools[0].call.source == "Two words"
    assert not (tmp_path / "a.json.pid").exists()
    refusal(
        write(entries, servers=("c",)), tmp_path, r"no server 'c'\..*: Two words, a"
    )


def test_of_several_servers_those_that_work_are_read(write, tmp_path):
    faults = ["dies in the middle", "wrong answer", "error"]
    entries = {fault: light(tmp_path, fault, fault) for fault in faults}
    entries |= {"works": light(tmp_path, "works"), "no place": {"env": {}}}
    off = {"command": "a", "args": [], "disabled": True}
    read = KIND.read(write(entries | {"off": off}), tmp_path)
    assert {tool.call.source for tool in read.tools} == {"works"}
    assert not read.complete
    said = dict(line.split(": ", 2)[1:] for line in read.problems)
    for fault in faults:
        assert FAULTS[fault] in said[fault]
    assert "`url`" in said["no place"]
    assert "off" not in said
    assert any("off" in note for note in read.notes)


def test_nothing_of_a_file_is_copied_or_said(write, tmp_path, capfd, caplog):
    caplog.set_level("DEBUG")

    def reflect(said):
        return json.dumps({"a": f"{said} {list(SECRETS.values())}"}).encode()

    echo = {"env": {"TOKEN": SECRETS["env"]}}
    with answering(500, reflect, Content_Type="application/json") as (url, requests):
        far = {
            "url": f"{url}?key={SECRETS['query']}",
            "headers": {"Authorization": f"Bearer {SECRETS['header']}"},
        }
        dying = light(tmp_path, "dying", "dies at start", **echo)
        dying["args"] += ["--key", SECRETS["argument"]]
        works = light(tmp_path, "works", **echo)
        write({"works": works, "far": far, "dying": dying})
        out = tmp_path / "run"
        run_recipe(load_recipe(str(write_recipe(tmp_path))), out, until="sources")
        assert any(SECRETS["query"] in path for path, *_ in requests)
    said = capfd.readouterr()
    shown = said.out + said.err + caplog.text
    assert "far: it returned HTTP status 500" in " ".join(shown.split())
    files = [path for path in out.rglob("*") if path.is_file()]
    assert any(path.name == "tools.parquet" for path in files)
    for secret in SECRETS.values():
        assert secret not in shown
        for path in files:
            assert secret.encode() not in path.read_bytes(), path


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
def test_what_a_server_repeats_of_secrets_is_hidden(
    write, tmp_path, given, secret, shown
):
    schema = {"type": "object", "properties": {f"p_{secret}": {"enum": [secret]}}}
    tools = [
        {"name": "a", "description": f"Uses {secret}.", "inputSchema": schema},
        {"name": "b", "description": "Uses nothing."},
        {"name": f"c_{secret}", "description": "Called by it."},
    ]
    entry = light(tmp_path, "works", tools=tools, env=given.get("env", {}))
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
        ("GIT_CONFIG_KEY_3", "core.sshCommand"),
        ("ALL_PROXY", "socks5://10.0.0.9:1080"),
        ("MY_OWN", "anything at all"),
        ("spring.profiles.active", "UTC"),
        ("INPUT_MY-VAR", "UTC"),
        ("A(x86)", "UTC"),
        ("", "--seat=7A"),
    ],
)
def test_each_value_is_shown_and_permitted(write, tmp_path, monkeypatch, name, value):
    token = SECRETS["env"]
    more = {name: value} if name else {}
    entry = light(tmp_path, "a", env={"TOKEN": token, **more})
    entry["args"] += [] if name else [value]
    source = write({"a": entry}, granted=False)
    shown = refusal(source, tmp_path)
    assert token not in shown
    assert f"{name and f'{name}='}{shlex.quote(value)}" in shown
    monkeypatch.setenv(GRANTS, read_line(shown))
    assert KIND.read(source, tmp_path).tools
    for old in (value, token):
        changed = json.dumps({"a": entry}).replace(old, f"{old}1")
        list_servers(tmp_path, json.loads(changed))
        refusal(source, tmp_path)


def test_a_short_secret_is_filled_in_by_the_user(write, tmp_path, monkeypatch):
    entry = light(tmp_path, "a")
    entry["args"].append("--api-key=open")
    source = write({"a": entry}, granted=False)
    line = read_line(refusal(source, tmp_path))
    monkeypatch.setenv(GRANTS, line.replace("<secret of 4 characters>", "open"))
    assert KIND.read(source, tmp_path).tools
    entry["args"][-1] += "s"
    list_servers(tmp_path, {"a": entry})
    refusal(source, tmp_path)


def test_a_value_with_a_line_of_its_own_can_not_fake_the_question(write, tmp_path):
    shown = []
    for value in ("x\n  harmless\nStart it?", "x\\n  harmless\\nStart it?"):
        source = write({"a": light(tmp_path, "a", env={"ANY": value})}, granted=False)
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
def test_what_reads_as_other_command_refused(write, tmp_path, monkeypatch, given, told):
    entry = {**light(tmp_path, "a"), **given}
    source = write({"a": entry})
    line = shlex.join([entry["command"], *entry["args"]])
    monkeypatch.setenv(GRANTS, f"start {line}; start docker run --rm -e TZ=UTC {line}")
    assert told in refusal(source, tmp_path, "not the name of a variable|reads like")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, '"mcpServers"') for text in ("[]", "{}", '{"mcpServers": []}')),
        *((text, "not valid JSON") for text in ("", "{")),
        ('{"mcpServers": {"a": {"disabled": true}}}', r"disabled.*\(a: .*`servers`"),
    ],
)
def test_a_file_without_servers_is_refused(tmp_path, text, said):
    file = tmp_path / "servers.json"
    file.write_text(text)
    refusal(McpSource(config=file), tmp_path, rf"servers\.json.*: .*{said}")


def test_the_file_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    [source] = load_recipe(str(write_recipe(tmp_path, "~/a.json"))).recipe.sources
    assert source.config == tmp_path / "home" / "a.json"
    with pytest.raises(InputError, match="cannot be a path"):
        load_recipe(str(write_recipe(tmp_path, "~nobody_of_this_name/a.json")))


def test_plan_and_preview_start_nothing(write, tmp_path):
    from toolbank.commands.preview import preview_attempts
    from toolbank.run.plan import describe_plan

    write({"a": light(tmp_path, "a")})
    loaded = load_recipe(str(write_recipe(tmp_path)))
    with pytest.raises(InputError, match=r"starts .*light_mcp.* Read them first: "):
        describe_plan(loaded, tmp_path / "run")
    with pytest.raises(InputError, match=r"starts .*light_mcp"):
        list(preview_attempts(loaded.recipe, tmp_path / "run", 2))
    assert not (tmp_path / "a.json.pid").exists()
    run_recipe(loaded, tmp_path / "run", until="sources")
    (tmp_path / "a.json.pid").unlink()
    assert "12" in describe_plan(loaded, tmp_path / "run")
    assert not (tmp_path / "a.json.pid").exists()
