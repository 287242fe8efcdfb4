import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.calls.apis import serving_api
from tests.sources import light_mcp
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.run import run_recipe
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.caller import ToolCaller, describe_permissions
from toolbank.sources.collect import collect_tools
from toolbank.sources.functions import FunctionsSource
from toolbank.sources.mcp.settings import McpSource
from toolbank.sources.merge import assign_labels
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError


def write_api(path, server="", operations=("getTide",), version="1", **paths):
    read = {"responses": {"200": {"description": "Fine."}}}
    content = {
        "openapi": "3.0.3",
        "info": {"title": "Harbour API", "version": version},
        "servers": [{"url": server}] if server else [],
        "paths": {
            f"/{name}": {"get": {**read, "operationId": name}} for name in operations
        },
    }
    content["paths"].update(paths)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def labels_of(sources, folder):
    tools = collect_tools(sources, folder).tools
    return {tool.name: tool.source for tool in tools}


def assigned(*sources):
    """The labels in the bank of sources with a label each."""
    told = assign_labels(sources, [[one.label] for one in sources])
    return [label for each in told for label in each.values()]


def make_caller(tools, targets, writes=False):
    caller = ToolCaller(["*"], targets, writes=writes)
    caller.learn("finder", tools)
    return caller


def write_recipe(folder, sources):
    recipe = folder / "r.yaml"
    recipe.write_text(f"name: r\nsources: [{sources}]\ngenerate: {{engine: rules}}\n")
    return load_recipe(str(recipe))


@pytest.fixture(scope="module")
def hosts():
    with serving_api() as north, serving_api() as south:
        yield north, south


@pytest.mark.parametrize("files", ["north.json south.json", "n/api.json s/api.json"])
def test_a_call_goes_to_the_server_of_its_own_file(tmp_path, hosts, files):
    sources = [
        OpenApiSource(spec=str(write_api(tmp_path / file, address)), prefix=prefix)
        for file, prefix, (address, _) in zip(files.split(), "ns", hosts, strict=True)
    ]
    tools = collect_tools(sources, tmp_path).tools
    proposed = describe_permissions(make_caller(tools, {}), tools)[0]
    labels = [f"openapi:{file}" for file in files.split()]
    assert all(label in proposed for label in labels)
    targets = {
        label: Target(url=address, private=True)
        for label, (address, _) in zip(labels, hosts, strict=True)
    }
    for tool, (_, came), other in zip(tools, hosts, reversed(hosts), strict=True):
        before = len(came), len(other[1])
        asyncio.run(make_caller(tools, targets).call(tool, {}))
        assert (len(came), len(other[1])) == (before[0] + 1, before[1])


def test_labels_of_one_kind_are_told_apart(tmp_path):
    files = ["api.json", "test/api.json", "test/old/api.json"]
    assert assigned(*(FunctionsSource(path=Path("/x", file)) for file in files)) == [
        *("functions:./api.json", "functions:test/api.json", "functions:old/api.json")
    ]
    one, other = (
        OpenApiSource(spec=f"https://api.example/openapi.json?key={key}")
        for key in ("secret-1", "secret-2")
    )
    labels = assigned(one, other)
    assert len({*labels}) == 2
    assert "secret" not in str(labels)
    assert assigned(one, one) == [one.label, one.label]
    sources = [
        McpSource(command=("docker", "run", "-i", image), prefix=prefix)
        for image, prefix in (("tides", "t"), ("ports", None), ("ships", None))
    ]
    labels = assigned(*sources)
    assert labels[0] == "mcp:docker run t"
    assert len({*labels}) == 3


@pytest.mark.parametrize("kind", ["openapi", "functions"])
def test_two_places_of_one_name_are_refused_with_both(tmp_path, kind):
    paths = [write_api(tmp_path / name) for name in ("a.json", "b.json")]
    key = {"openapi": "spec", "functions": "path"}[kind]
    listed = ", ".join(f"{{type: {kind}, {key}: {p.name}, name: port}}" for p in paths)
    with pytest.raises(InputError) as refused:
        run_recipe(write_recipe(tmp_path, listed), tmp_path / "out", until="sources")
    said = str(refused.value)
    assert all(str(path) in said for path in paths)
    assert f"{kind}:port" in said
    assert "`name: NAME`" in said


@pytest.mark.parametrize("title", ["Harbour API", "Harbour API, second: edition"])
def test_another_version_of_an_api_has_the_same_label(tmp_path, title):
    file = write_api(tmp_path / "tides.json")
    recipe = write_recipe(tmp_path, "{type: openapi, spec: tides.json}")
    run_recipe(recipe, tmp_path / "out", until="sources")
    write_api(file, version="2")
    file.write_text(file.read_text().replace("Harbour API", title))
    changes = refresh_run(tmp_path / "out").changes
    assert (changes.added, changes.removed, changes.changed) == ((), (), {})
    assert labels_of([OpenApiSource(spec=str(file))], tmp_path) == {
        "getTide": "openapi:tides.json"
    }


def test_operations_at_another_server_need_a_target_of_their_own(tmp_path, hosts):
    (address, _), (uploads, came) = hosts
    upload = {"get": {"operationId": "getUpload", "servers": [{"url": uploads}]}}
    file = write_api(tmp_path / "tides.json", address, **{"/upload": upload})
    tools = collect_tools([OpenApiSource(spec=str(file))], tmp_path).tools
    tide, upload = tools

    def call(tool, *keys):
        urls = {"openapi:tides.json": address, f"openapi:tides.json {uploads}": uploads}
        targets = {key: Target(url=urls[key], private=True) for key in keys}
        caller = make_caller(tools, targets)
        asyncio.run(caller.call(tool, {}))
        return describe_permissions(caller, tools)

    plain, own = "openapi:tides.json", f"openapi:tides.json {uploads}"
    told = call(tide, plain)
    assert own in " ".join(told[1].split())
    with pytest.raises(CallError, match="no target is configured"):
        call(upload, plain)
    before = len(came)
    call(upload, plain, own)
    assert len(came) == before + 1


def test_servers_of_one_name_in_two_client_files_are_two(tmp_path, monkeypatch):
    sources, lines = [], []
    for place in ("work", "home"):
        folder = tmp_path / place
        folder.mkdir()
        file = folder / "tools.json"
        file.write_text(json.dumps([{"name": f"{place}_post", "description": "Post."}]))
        args = ["-S", "-I", light_mcp.__file__, str(file)]
        entry = {"command": sys.executable, "args": args}
        lines.append(shlex.join(["start", sys.executable, *args]))
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
        sources.append(McpSource(config=folder / "mcp.json"))
    monkeypatch.setenv("TOOLBANK_GRANTS", "\n".join(lines))
    tools = collect_tools(sources, tmp_path).tools
    for tool, place in zip(tools, ("home", "work"), strict=True):
        assert tool.name == f"notes/{place}_post"
        assert tool.source == f"mcp:{tool.call.source}" == f"mcp:{place}/mcp.json/notes"
    caller = make_caller(tools, {"notes": Target(command=("x",))}, writes=True)
    assert not any(map(caller.find_target, tools))


def test_of_two_files_with_one_label_the_server_of_the_target_is_called(tmp_path):
    """As banks of 0.7.0 have it."""
    sources = [
        OpenApiSource(spec=str(write_api(tmp_path / f"{n}.json", url)), prefix=n)
        for n, url in (("a", "https://a.example"), ("b", "https://b.example"))
    ]
    former = {"source": "openapi:Harbour API 1"}
    collected = collect_tools(sources, tmp_path).tools
    tools = [tool.model_copy(update=former) for tool in collected]
    target = Target(url="https://a.example/")
    caller = make_caller(tools, {"openapi:Harbour API 1": target})
    assert [caller.find_target(tool) for tool in tools] == [target, None]
    proposed = describe_permissions(caller, tools)[1]
    assert "openapi:Harbour API 1 https://b.example" in proposed


NAMES = st.sampled_from(["a", "b", "api.json"])
PATHS = st.lists(
    st.lists(NAMES, max_size=3).map(lambda parts: "/".join([*parts, "api.json"])),
    min_size=1,
    max_size=6,
)


@given(PATHS, st.sampled_from(["/x", "/some/where/else"]))
def test_different_paths_have_different_labels_wherever_they_are(paths, folder):
    def tell(root):
        return assigned(*(FunctionsSource(path=Path(root, path)) for path in paths))

    labels = tell(folder)
    assert labels == tell("/")
    assert len({*labels}) == len({*paths})
    assert {*zip(paths, labels, strict=True)} == {
        *dict(zip(paths, labels, strict=True)).items()
    }
