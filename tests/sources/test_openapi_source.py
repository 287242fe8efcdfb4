"""Words, servers and addresses of a description."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi_specs import (
    described,
    operation,
    read,
    read_operation,
    read_tool,
)
from toolbank.bank.records import HttpCall, Tool
from toolbank.run.recipe import load_recipe
from toolbank.sources.functions import FunctionsSource
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.sources.recognise import recognise
from toolbank.system.errors import InputError


def server_of(tool: Tool) -> str:
    assert isinstance(tool.call, HttpCall)
    return tool.call.server


def test_words_tags_and_address(tmp_path: Path) -> None:
    tool = read_operation(
        tmp_path,
        operationId="pets.list",
        summary="List pets",
        description="All of them.\n\nBy page.",
        tags=["pets", "pets", "lists"],
        deprecated=True,
        externalDocs={"url": "https://pets.example/docs"},
    )
    assert (tool.name, tool.kind, tool.signature) == (
        "pets.list",
        "operation",
        "GET /pets",
    )
    assert (tool.title, tool.summary) == ("List pets", "List pets")
    assert tool.description == "All of them.\n\nBy page."
    assert tool.tags == ("pets", "lists")
    assert tool.deprecated == "Deprecated."
    assert tool.url == "https://pets.example/docs"
    assert tool.source == "openapi:pets.json"


def test_without_a_summary_the_first_words_are_it(tmp_path: Path) -> None:
    tool = read_operation(tmp_path, description="All pets.\n\nBy page.")
    assert (tool.summary, tool.description) == ("All pets.", "By page.")
    path = {"summary": "Pets", "description": "Of a path.", "get": operation()}
    tool = read_tool(tmp_path, described({"/pets": path}))
    assert (tool.summary, tool.description) == ("Pets", "Of a path.")


@pytest.mark.parametrize(
    ("servers", "address"),
    [
        (
            [{"url": "https://pets.example/v1"}, {"url": "https://other.example"}],
            "https://pets.example/v1",
        ),
        (
            [
                {
                    "url": "https://{region}.pets.example:{port}/v1",
                    "variables": {
                        "region": {"default": "eu"},
                        "port": {"default": 443},
                    },
                }
            ],
            "https://eu.pets.example:443/v1",
        ),
        ([{"url": "https://me:secret@pets.example/"}], "https://pets.example/"),
        (
            [{"url": "https://pets.example/v1?key=secret#top"}],
            "https://pets.example/v1",
        ),
        ([{"url": "https://[pets.example/v1?key=secret"}], "https://[pets.example/v1"),
        ([{"url": "/v1"}], "/v1"),
        ([], ""),
    ],
)
def test_the_first_server_is_proposed_and_nothing_secret(
    tmp_path: Path, servers: Any, address: str
) -> None:
    tool = read_operation(tmp_path, description_of={"servers": servers})
    assert server_of(tool) == address


def test_the_nearest_servers_count(tmp_path: Path) -> None:
    near, far = ([{"url": f"https://{name}.example"}] for name in ("near", "far"))
    path = {"servers": near, "get": operation(), "put": operation(servers=far)}
    collected = read(tmp_path, described({"/pets": path}, servers=[{"url": "/"}]))
    assert [server_of(tool) for tool in collected.tools] == [
        "https://near.example",
        "https://far.example",
    ]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_description_at_an_address_has_its_servers_there(
    site: str, tmp_path: Path
) -> None:
    said = described({"/pets": {"$ref": "pets.json#/pets"}}, servers=[{"url": "../v1"}])
    (tmp_path / "site" / "openapi.json").write_text(json.dumps(said))
    (tmp_path / "site" / "pets.json").write_text(
        json.dumps({"pets": {"get": operation()}})
    )
    config = OpenApiSource(spec=f"{site}/openapi.json?token=secret")
    collected = KIND.read(config, tmp_path)
    assert [server_of(tool) for tool in collected.tools] == [f"{site}/v1"]
    assert config.label == f"openapi:{site}/openapi.json"
    said_of_it = [KIND.version(config), str(collected), config.label]
    assert not any("secret" in text for text in said_of_it)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="has a user name or password") as refused:
        OpenApiSource(spec="https://me:hunter2@pets.example/openapi.json")
    assert "hunter2" not in str(refused.value.errors()[0]["msg"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("address", ["http://[", "https://a.example:port/openapi.json"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="no address that can be asked"):
        OpenApiSource(spec=address)


def test_a_password_in_a_recipe_or_on_the_command_line_is_not_repeated(
    tmp_path: Path,
) -> None:
    address = "https://me:hunter2@pets.example/openapi.json"
    file = tmp_path / "r.yaml"
    file.write_text(f"name: pets\nsources: [{{type: openapi, spec: '{address}'}}]\n")
    for refused in (partial(load_recipe, str(file)), partial(recognise, address)):
        with pytest.raises(InputError, match="user name or password") as error:
            refused()
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["http://[", "https://", "https://a.example:x/"])
def test_what_looks_like_an_address_and_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="has no host or port that can be read"):
        recognise(address)


def test_what_a_recipe_names_is_of_its_folder(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    spec = "{type: openapi, spec: pets.json}, {type: openapi, spec: 'https://a.example/b.json'}"
    recipe.write_text(f"name: pets\nsources: [{spec}]\n")
    file, address = load_recipe(str(recipe)).recipe.sources
    assert file.spec == str(tmp_path / "pets.json")
    assert address.spec == "https://a.example/b.json"
    assert (file.label, address.label) == (
        "openapi:pets.json",
        "openapi:https://a.example/b.json",
    )
    assert (file.api_name, address.api_name) == ("pets", "a.example")


def test_a_page_for_people_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text("<!DOCTYPE html><html></html>")
    with pytest.raises(InputError, match=r"openapi\.json: is a web page"):
        KIND.read(OpenApiSource(spec=str(file)), tmp_path)


def test_what_has_the_version_in_its_outermost_object_is_recognised(
    tmp_path: Path,
) -> None:
    said = {"components": {"x": ["{"] * 2000}, "info": {}, "openapi": "3.1.0"}
    texts = [
        json.dumps({"openapi": "3.1.0", "info": {}}),
        json.dumps(said),
        f"\ufeff {json.dumps(said, indent=2)}",
        "components:\n  x: 1\nswagger: '2.0'\n",
    ]
    file = tmp_path / "pets.json"
    for text in texts:
        file.write_text(text, encoding="utf-8")
        assert recognise(str(file)) == OpenApiSource(spec=str(file))


def test_what_has_a_version_deeper_is_none(tmp_path: Path) -> None:
    parameters = {"properties": {"like": {"default": {"openapi": "3.0"}}}}
    function = {"name": "convert", "parameters": parameters}
    file = tmp_path / "functions.json"
    for said in ([function], {"tools": [function]}):
        for indent in (None, 0, 2):
            file.write_text(json.dumps(said, indent=indent))
            assert recognise(str(file)) == FunctionsSource(path=file)
