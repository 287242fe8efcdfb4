"""A source of which a part can't be read: the rest is used, and a refresh brings what failed."""

import json
import shlex
import sys
from functools import partial

import pytest

from tests.commands.in_process import do
from tests.sources import light_mcp
from tests.sources.sphinx_server import SiteServer
from tests.world import write_recipe
from toolbank.bank.files import read_tools

BY_RULES = {"engine": "rules", "queries": 40, "min_tools": 1, "max_tools": 1}


def names_in(folder):
    tools = read_tools(folder / "runs/mine/bank/tools.parquet")
    return sorted(tool.name for tool in tools)


def listed(*names):
    return [{"name": n, "description": f"{n.title()} the harbour."} for n in names]


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """Writes a client's file: by server its tools, None for one that dies at its start."""
    monkeypatch.delenv("TOKEN", raising=False)

    def write(**tools):
        entries, lines = {}, []
        for name, own in tools.items():
            file = tmp_path / f"{name}.json"
            file.write_text(json.dumps(listed(*own or ("x",))))
            fault = "" if own else "dies at start"
            args = ["-S", "-I", light_mcp.__file__, str(file), fault, "5"]
            entries[name] = {"command": sys.executable, "args": args}
            lines.append(shlex.join(["start", sys.executable, *args]))
            file.with_suffix(".json.pid").unlink(missing_ok=True)
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        monkeypatch.setenv("TOOLBANK_GRANTS", "\n".join(lines))

    write_recipe(tmp_path, "{type: mcp, config: mcp.json}", **BY_RULES)
    return write


def started(folder):
    found = [*folder.glob("*.json.pid")]
    for path in found:
        path.unlink()
    return sorted(path.name.partition(".")[0] for path in found)


WORKING = ("open", "close", "dredge", "light", "survey", "tow")


@pytest.mark.parametrize("before", ["mine.yaml", "mine.yaml --out runs/mine"])
def test_preview_names_the_command_that_reads_the_tools(servers, tmp_path, before):
    servers(harbour=WORKING)
    done = do(tmp_path, "preview", *before.split(), code=2)
    assert "toolbank run mine.yaml --until sources" in done.stderr
    assert not started(tmp_path)


def test_a_server_that_fails_comes_with_a_refresh(servers, tmp_path):
    servers(harbour=WORKING, customs=None)
    call = partial(do, tmp_path)
    done = call("run", "mine.yaml")
    assert "mcp:mcp.json: customs: " in done.stderr
    assert "toolbank refresh runs/mine" in done.stderr
    assert "Incomplete" not in done.stdout
    assert started(tmp_path) == ["customs", "harbour"]
    for words in (
        *("preview mine.yaml", "preview runs/mine", "plan mine.yaml"),
        *("search runs/mine harbour", "pack runs/mine --out finder", "run mine.yaml"),
    ):
        done = call(*words.split())
        said = done.stdout + done.stderr
        assert "customs" not in said and "not finished" not in said
        assert not started(tmp_path)
    servers(harbour=WORKING, customs=("declare", "inspect"))
    done = call("refresh", "runs/mine")
    assert "2 added, 0 removed, 0 changed, 6 the same" in done.stdout
    assert {"customs/declare", "customs/inspect"} < {*names_in(tmp_path)}


def test_unreadable_parts_keep_their_tools(servers, tmp_path):
    servers(harbour=WORKING, customs=("declare", "inspect", "seal", "levy"))
    call = partial(do, tmp_path)
    call("run", "mine.yaml")
    servers(harbour=(*WORKING[1:], "moor"), customs=None)
    done = call("refresh", "runs/mine")
    assert "1 added, 1 removed, 0 changed, 9 the same" in done.stdout
    assert "keeps the tools that it had: mcp:customs" in done.stdout
    names = names_in(tmp_path)
    assert {"customs/levy", "harbour/moor"} < {*names}
    assert "harbour/open" not in names
    servers(harbour=WORKING)
    assert "1 added, 5 removed" in call("refresh", "runs/mine").stdout
    servers(harbour=WORKING, customs=("declare", "inspect"))
    assert "2 added, 0 removed" in call("refresh", "runs/mine").stdout
    servers(harbour=WORKING, customs=None)
    assert "0 added, 2 removed" in call("refresh", "runs/mine", "--force").stdout
    call("run", "mine.yaml")


@pytest.mark.parametrize("lost", ["tides.json", "api.json"])
def test_a_file_of_a_site_that_is_gone_keeps_its_tools(tmp_path, lost):
    ship = {"operationId": "getShip", "summary": "Find a ship."}
    tide = {"operationId": "getTide", "summary": "Tell the tide.", "responses": {}}
    paths = {"/tide": {"$ref": "tides.json#/tide"}, "/ship": {"get": ship}}
    info = {"title": "Harbour", "version": "1"}
    for name, content in {
        "site/api.json": {"openapi": "3.0.3", "info": info, "paths": paths},
        "site/tides.json": {"tide": {"get": tide}},
        "list.json": listed(*WORKING),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    call = partial(do, tmp_path)
    with SiteServer(tmp_path / "site") as site:
        url = f"{site.url}api.json"
        source = f"{{type: openapi, spec: '{url}', private_addresses: true}}"
        other = "{type: functions, path: list.json}"
        write_recipe(tmp_path, f"{source}\n  - {other}", **BY_RULES)
        call("run", "mine.yaml")
        before = names_in(tmp_path)
        (tmp_path / "list.json").write_text(json.dumps(listed(*WORKING, "moor")))
        site.statuses[f"/{lost}"] = [503]
        said = " ".join(call("refresh", "runs/mine").stdout.split())
    assert "1 added, 0 removed" in said
    assert f"keeps the tools that it had: openapi:{url}" in said
    assert names_in(tmp_path) == sorted([*before, "moor"])
    call("run", "mine.yaml")
