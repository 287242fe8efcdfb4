"""Descriptions that other readers fail on: what can be read is, the rest is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi_specs import (
    described,
    json_body,
    json_response,
    operation,
    read,
    read_tool,
)
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError

GET = {"/pets": {"get": operation()}}


def test_without_info_and_responses_it_is_read_with_a_note(tmp_path: Path) -> None:
    collected = read(tmp_path, {"openapi": "3.0.0", "paths": {"/pets": {"get": {}}}})
    assert [tool.name for tool in collected.tools] == ["get_pets"]
    assert collected.notes == (
        f"openapi:pets.json: no `info`, which should say what the API is called at "
        f"{tmp_path}/pets.json#",
        f"openapi:pets.json: an operation without `responses` at "
        f"{tmp_path}/pets.json#/paths/~1pets/get",
    )
    assert not collected.problems


@pytest.mark.parametrize("version", ["3.0.0", "3.1.2", "3.2.0", "3"])
def test_every_version_is_read(tmp_path: Path, version: str) -> None:
    collected = read(tmp_path, described(GET, openapi=version))
    assert len(collected.tools) == 1 and not collected.notes


def test_a_version_to_come_is_read_with_a_note(tmp_path: Path) -> None:
    collected = read(tmp_path, described(GET, openapi="3.7.0"))
    assert len(collected.tools) == 1
    assert "the version 3.7.0 is new; read as 3.2" in collected.notes[0]


def test_methods_of_3_2_are_read(tmp_path: Path) -> None:
    item = {"query": operation(), "additionalOperations": {"COPY": operation()}}
    collected = read(tmp_path, described({"/pets": item}, openapi="3.2.0"))
    assert [tool.name for tool in collected.tools] == ["copy_pets", "query_pets"]
    assert [tool.signature for tool in collected.tools] == ["COPY /pets", "QUERY /pets"]


def test_a_method_that_its_path_has_twice_is_counted(tmp_path: Path) -> None:
    item = {"get": operation(operationId="one"), "GET": operation(operationId="two")}
    collected = read(tmp_path, described({"/pets": item}))
    assert [tool.name for tool in collected.tools] == ["one"]
    [reason] = collected.info["left_out"]
    assert reason.startswith("operation whose path has its method twice")
    assert collected.info["left_out_examples"] == {reason: ["GET /pets"]}


@pytest.mark.parametrize(
    ("description", "said"),
    [
        (
            described(GET, openapi="4.0.0"),
            "pets.json#/openapi: the version '4.0.0' can't be read",
        ),
        (
            {"swagger": "1.2", "paths": GET},
            "pets.json#/swagger: the version '1.2' can't be read",
        ),
        ({"asyncapi": "3.0.0"}, "holds no OpenAPI description .it looks like AsyncAPI"),
        (
            {"info": {"_postman_id": "1", "name": "shop"}, "item": []},
            "holds no OpenAPI description .it looks like a Postman collection",
        ),
        ({"paths": GET}, "it has `paths`, but no `openapi` that says the version"),
        ({}, "it has neither `openapi` nor `swagger`"),
        ([1], "holds no OpenAPI description .it is a list"),
        (described({}), "pets.json#/paths: the description has no operations"),
        (
            {"openapi": "3.1.0", "webhooks": {"new": {"post": {}}}},
            "1: webhook, which the API calls",
        ),
        (
            described({"/pets": {"get": 1}}),
            "no operation that can be read .*1: operation that can't",
        ),
        (described({"/pets": {"$ref": "#/x"}}), "the `.ref` of a path leads nowhere"),
    ],
)
def test_what_has_no_operations_is_refused_with_the_place(
    tmp_path: Path, description: Any, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, description)


def test_references_that_lead_nowhere_are_named_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    said = operation(
        parameters=[
            {"$ref": "#/components/parameters/Nope"},
            {"name": "a", "in": "query"},
        ],
        requestBody=json_body(
            {"properties": {"pet": {"$ref": "#/components/schemas/Nope"}}}
        ),
        responses={"200": {"$ref": "#/components/responses/Nope"}},
    )
    collected = read(
        tmp_path, described({"/pets": {"post": said}, "/x": {"$ref": "#/nope"}})
    )
    (tool,) = collected.tools
    assert tool.parameters["properties"] == {"a": {}, "pet": {}}
    assert tool.output_schema is None
    place = f"{tmp_path}/pets.json#/paths/~1pets/post"
    schema = "requestBody/content/application~1json/schema/properties/pet"
    assert collected.problems == (
        f"openapi:pets.json: the `$ref` of a path leads nowhere at {tmp_path}/pets.json#/paths/~1x",
        f"openapi:pets.json: the `$ref` of a parameter leads nowhere, and is left out at "
        f"{place}/parameters/0",
        f"openapi:pets.json: the reference #/components/schemas/Nope leads nowhere at "
        f"{place}/{schema}",
        f"openapi:pets.json: the `$ref` of a response leads nowhere, and is left out at "
        f"{place}/responses/200",
    )
    assert collected.info["left_out"] == {"path that can't be read": 1}
    assert collected.info["left_out_examples"] == {"path that can't be read": ["/x"]}


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {
            "A": {"$ref": "#/components/schemas/B"},
            "B": {"$ref": "#/components/schemas/A"},
        },
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}, {"title": "A"}]}},
        {
            "A": {"anyOf": [{"oneOf": [{"$ref": "#/components/schemas/B"}]}]},
            "B": {"not": {"$ref": "#/components/schemas/A"}},
        },
    ],
)
def test_schemas_that_say_no_more_than_themselves_are_named(
    tmp_path: Path, schemas: Any
) -> None:
    body = json_body({"properties": {"a": {"$ref": "#/components/schemas/A"}}})
    said = described(
        {"/pets": {"post": operation(requestBody=body)}},
        components={"schemas": schemas},
    )
    collected = read(
        tmp_path, said
    )  # whose tools are sound: no validator runs for ever
    (problem,) = collected.problems
    assert "itself" in problem and "pets.json#/" in problem


def test_what_an_operation_says_in_a_wrong_type_is_named(tmp_path: Path) -> None:
    wrong = {
        "summary": ["a"],
        "description": 1,
        "operationId": 7,
        "deprecated": "yes",
        "tags": "pets",
        "parameters": {"name": "a", "in": "query"},
        "security": {"key": []},
        "servers": "https://pets.example",
        "callbacks": [],
    }
    path = {"description": {}, "get": operation(**wrong), "put": operation(tags=[1])}
    null = {"get": operation(**dict.fromkeys(wrong))}
    collected = read(tmp_path, described({"/pets": path, "/null": null}))
    assert [tool.name for tool in collected.tools] == [
        "get_null",
        "get_pets",
        "put_pets",
    ]
    place = f"{tmp_path}/pets.json#/paths/~1pets"
    assert sorted(collected.problems) == sorted(
        [
            f"openapi:pets.json: `description` is no text (2 times), first at "
            f"{place}/description, {place}/get/description",
            f"openapi:pets.json: `deprecated` is neither true nor false at {place}/get/deprecated",
            f"openapi:pets.json: `callbacks` is no object at {place}/get/callbacks",
            f"openapi:pets.json: a tag is no text at {place}/put/tags/0",
            *(
                f"openapi:pets.json: `{key}` is no {kind} at {place}/get/{key}"
                for key, kind in (
                    ("summary", "text"),
                    ("operationId", "text"),
                    ("tags", "list"),
                    ("parameters", "list"),
                    ("security", "list"),
                    ("servers", "list"),
                )
            ),
        ]
    )


@pytest.mark.parametrize("key", ["webhooks", "x-webhooks"])
def test_what_the_api_calls_is_counted_and_no_tool(tmp_path: Path, key: str) -> None:
    call = {"post": operation(), "put": operation()}
    callbacks = {
        "changed": {"{$request.body#/url}": call},
        "gone": {"$ref": "#/components/callbacks/Gone"},
        "lost": {"$ref": "#/components/callbacks/Lost"},
    }
    said = described(
        {"/watch": {"post": operation(callbacks=callbacks)}},
        components={
            "callbacks": {"Gone": {"{$url}": {"$ref": "#/components/pathItems/G"}}},
            "pathItems": {"G": {"delete": operation()}},
        },
        **{key: {"born": call, "moved": {"summary": "Nothing yet."}}},
    )
    collected = read(tmp_path, said)
    assert [tool.name for tool in collected.tools] == ["post_watch"]
    assert collected.info["left_out"] == {
        "callback, which the API calls": 3,
        "webhook, which the API calls": 2,
    }
    assert collected.info["left_out_examples"] == {
        "callback, which the API calls": [
            "DELETE gone of POST /watch",
            "POST changed of POST /watch",
            "PUT changed of POST /watch",
        ],
        "webhook, which the API calls": ["POST born", "PUT born"],
    }
    (problem,) = collected.problems
    assert "the `$ref` of a callback leads nowhere" in problem


def test_paths_of_azure_that_differ_by_their_query_are_read(tmp_path: Path) -> None:
    more = {"/pets?kind={kind}": {"get": operation(operationId="list_kind")}}
    said = described(GET, **{"x-ms-paths": more})
    tools = read(tmp_path, said).tools
    assert [(tool.name, tool.signature) for tool in tools] == [
        ("get_pets", "GET /pets"),
        ("list_kind", "GET /pets?kind={kind}"),
    ]


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_of_a_key_that_stands_twice_the_last_counts_with_a_note(
    tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"pets.{ending}"
    file.write_text(
        '{"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": {"/pets": '
        '{"get": {"summary": "One", "responses": {}}, "get": {"summary": "Two", "responses": {}}}}}'
        if ending == "json"
        else "openapi: 3.1.0\ninfo: {title: Pets, version: 1}\npaths:\n  /pets:\n"
        "    get: {summary: One, responses: {}}\n    get: {summary: Two, responses: {}}\n"
    )
    collected = KIND.read(OpenApiSource(spec=str(file)), tmp_path)
    assert [tool.summary for tool in collected.tools] == ["Two"]
    assert collected.notes == (
        f"openapi:pets.{ending}: a key that an object gives more than once, of which the last "
        f"counts at {file}#/paths/~1pets/get",
    )


def test_a_property_may_be_called_ref(tmp_path: Path) -> None:
    schemas = {"Link": {"type": "object", "properties": {"$ref": {"type": "string"}}}}
    body = json_body({"$ref": "#/components/schemas/Link"})
    said = described(
        {"/pets": {"post": operation(requestBody=body)}},
        components={"schemas": schemas},
    )
    assert read_tool(tmp_path, said).parameters["properties"] == {
        "$ref": {"type": "string"}
    }
    assert not read(tmp_path, said).problems


@pytest.mark.parametrize("key", ["a/b", "a~b", "ä b", "100%", "~1", ""])
def test_pointers_are_escaped(tmp_path: Path, key: str) -> None:
    from urllib.parse import quote

    pointer = quote(key.replace("~", "~0").replace("/", "~1"))
    schemas = {key: {"type": "integer"}}
    response = json_response(
        {"type": "array", "items": {"$ref": f"#/components/schemas/{pointer}"}}
    )
    said = described(
        {"/pets": {"get": {"responses": response}}}, components={"schemas": schemas}
    )
    collected = read(tmp_path, said)
    assert not collected.problems
    output = collected.tools[0].output_schema
    assert output is not None and [*output["$defs"].values()] == [{"type": "integer"}]


def test_a_path_may_be_a_reference_with_more_beside_it(tmp_path: Path) -> None:
    items = {"Pets": {"get": operation(), "parameters": [{"name": "a", "in": "query"}]}}
    beside = {"$ref": "#/components/pathItems/Pets", "delete": operation()}
    said = described({"/pets": beside}, components={"pathItems": items})
    collected = read(tmp_path, said)
    assert [tool.name for tool in collected.tools] == ["delete_pets", "get_pets"]
    assert all("a" in tool.parameters["properties"] for tool in collected.tools)


def test_references_within_referenced_parts_and_by_anchor_are_followed(
    tmp_path: Path,
) -> None:
    schemas = {
        "Owner": {"$anchor": "owner", "properties": {"name": {"type": "string"}}},
        "Pet": {"properties": {"owner": {"$ref": "#/components/schemas/Owner"}}},
    }
    body = json_body(
        {
            "properties": {
                "through": {
                    "$ref": "#/components/schemas/Pet/properties/owner/properties/name"
                },
                "anchor": {"$ref": "#owner"},
            }
        }
    )
    said = described(
        {"/pets": {"post": operation(requestBody=body)}},
        components={"schemas": schemas},
    )
    collected = read(tmp_path, said)
    assert not collected.problems
    (tool,) = collected.tools
    assert tool.parameters["$defs"] == {
        "Owner": {"properties": {"name": {"type": "string"}}},
        "name": {"type": "string"},
    }


def test_what_is_nested_too_deep_is_named(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"properties": {"a": deep}}
    paths = {"/deep": {"post": operation(requestBody=json_body(deep))}, **GET}
    collected = read(tmp_path, described(paths))
    assert "get_pets" in [tool.name for tool in collected.tools]
    if len(collected.tools) == 1:
        assert collected.info["left_out"] == {"operation that can't be read": 1}


def test_yaml_is_read_with_numbers_for_keys(tmp_path: Path) -> None:
    file = tmp_path / "pets.yaml"
    file.write_text(
        """
openapi: 3.1.0
info: {title: Pets, version: 2020-01-02}
paths:
  /pets:
    get:
      responses:
        200: {content: {application/json: {schema: {type: string, example: 2020-01-02}}}}
"""
    )
    (tool,) = KIND.read(OpenApiSource(spec=str(file)), tmp_path).tools
    assert tool.output_schema == {"type": "string", "examples": ["2020-01-02"]}
    assert tool.source == "openapi:pets.yaml"


def test_of_many_things_the_first_are_told(tmp_path: Path) -> None:
    listed = [{"$ref": f"#/nope/{number}"} for number in range(200)]
    properties = {f"p{number}": one for number, one in enumerate(listed)}
    said = operation(requestBody=json_body({"properties": properties}))
    collected = read(tmp_path, described({"/pets": {"post": said}}))
    assert len(collected.problems) == 51
    assert collected.problems[-1] == "openapi:pets.json: 150 more that are not shown"
