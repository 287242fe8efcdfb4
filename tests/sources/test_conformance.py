import importlib
import json

import pytest

from tests.corpus_files import CORPUS
from tests.sources.mcp_servers import grants, light, list_servers
from tests.sources.sphinx_server import PAGE, described, signed
from toolbank.sources import SOURCES
from toolbank.sources.functions import FunctionsSource
from toolbank.sources.mcp.settings import McpSource
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.sources.python.settings import PythonSource
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.testing.sources import CHECKS, SourceCase

MODULE = (CORPUS / "conformance" / "package.txt").read_text("utf-8")


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"


@pytest.fixture
def code(canary):
    return f'__import__("pathlib").Path("{canary}").touch()'


@pytest.fixture
def python(make_package, tmp_path, canary):
    """A package that runs nothing but its import."""
    package = make_package({"__init__.py": MODULE.replace("CANARY", str(canary))})
    empty = make_package("X = 1")
    broken = make_package("1 / 0")

    def change():
        file = tmp_path / package / "__init__.py"
        file.write_text(file.read_text() + '\ndef more(): "More."\n__all__ += ["more"]')
        importlib.reload(importlib.import_module(package))

    return SourceCase(
        SOURCES.find("python", ""),
        PythonSource(package=package, methods=True),
        unreadable=tuple(
            PythonSource(package=name) for name in ("not_there", empty, broken, "a b")
        ),
        canary=canary,
        change=change,
        given=package,
    )


@pytest.fixture
def sphinx(small, tmp_path, canary, code):
    """A site of four functions, one of which is missing."""
    site = tmp_path / "site"
    body = f"<p>Do it. {{{{ 7 * 7 }}}} {code}</p><script>{code}</script>"
    page = PAGE.format(described("small.f0", body, signed("a", f"b={code}")))
    (site / "small.f0.html").write_text(page, "utf-8")
    (site / "small.f3.html").unlink()
    rules = tmp_path / "crawlers" / "small.yaml"
    (tmp_path / "crawlers" / "unknown.yaml").write_text(
        rules.read_text().replace("parents: [small]", "parents: [large]")
    )
    return SourceCase(
        SOURCES.find("sphinx", ""),
        SphinxSource(site="small", base_url=small.url),
        unreadable=(
            SphinxSource(site="nowhere"),
            SphinxSource(site="unknown", base_url=small.url),
        ),
        canary=canary,
    )


@pytest.fixture
def mcp(tmp_path, monkeypatch, canary, code):
    """A client's file of servers, of which one is not to be had."""
    properties = {code: {"type": "string", "default": code}, "prose": code}
    schema = {"type": "object", "properties": properties}
    tools = [
        {"name": f"$(touch {canary})", "description": f"{{{{ 7 * 7 }}}} {code}"},
        {"name": "join", "description": code, "inputSchema": schema},
    ]
    one = light(tmp_path, "tools", tools=tools)
    gone = {"command": f"{tmp_path}/none", "args": ["; touch x"]}
    file = list_servers(tmp_path, {"one": one, "gone": gone})
    nothing = {"command": "./nothing", "args": []}
    monkeypatch.setenv("TOOLBANK_GRANTS", grants(one, gone, nothing))
    return SourceCase(
        SOURCES.find("mcp", ""),
        McpSource(config=file),
        unreadable=(
            McpSource(command=("./nothing",)),
            McpSource(config=tmp_path / "missing.json"),
            McpSource(config=file, servers=("gone",)),
            McpSource(config=file, servers=("another",)),
        ),
        canary=canary,
        change=lambda: list_servers(tmp_path, {"one": one, "two": one}),
        given=str(file),
    )


@pytest.fixture
def openapi(tmp_path, canary, code):
    """A description of an operation, with code wherever a text may stand."""
    file = tmp_path / "pets.json"

    def write(**more):
        schema = {"type": "string", "default": code, "pattern": code, "format": code}
        said = {
            "summary": f"{{{{ 7 * 7 }}}} {code}",
            "parameters": [{"name": code, "in": "query", "schema": schema}],
            "responses": {"200": {"content": {"application/json": {"schema": schema}}}},
        }
        paths = {f"/$(touch {canary})": {"get": said}, "/gone": {"$ref": code}}
        info = {"title": code, "version": "1"}
        description = {"openapi": "3.1.0", "info": info, "paths": paths | more}
        file.write_text(json.dumps(description))

    write()
    (tmp_path / "empty.json").write_text('{"openapi": "3.1.0", "paths": {}}')
    (tmp_path / "page.html").write_text("<html></html>")
    return SourceCase(
        SOURCES.find("openapi", ""),
        OpenApiSource(spec=str(file)),
        unreadable=tuple(
            OpenApiSource(spec=str(tmp_path / name))
            for name in ("missing.yaml", "empty.json", "page.html")
        ),
        canary=canary,
        change=lambda: write(**{"/more": {"get": {"responses": {}}}}),
        given=str(file),
    )


@pytest.fixture
def functions(tmp_path, canary, code):
    """A list of functions in two forms, one of which is broken."""
    file = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {code: {"default": code}}}

    def write(*names):
        listed = [
            {"type": "function", "function": {"name": name, "description": code}}
            for name in names
        ]
        one = {"name": f"$(touch {canary})", "input_schema": schema}
        file.write_text(json.dumps([*listed, one, {"description": "no name"}]))

    write("add", "join")
    (tmp_path / "none.json").write_text('{"openapi": "3.1.0", "paths": {}}')
    (tmp_path / "page.json").write_text("<html>")
    return SourceCase(
        SOURCES.find("functions", ""),
        FunctionsSource(path=file),
        unreadable=tuple(
            FunctionsSource(path=tmp_path / name)
            for name in ("none.json", "page.json", "missing.json", "missing.csv")
        ),
        canary=canary,
        change=lambda: write("add", "join", "more"),
        given=str(file),
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("source", SOURCES.own)
def test_source(source, check, request):
    check(request.getfixturevalue(source))
