"""What an operation takes, and where each part of it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sources.openapi_specs import (
    described,
    json_body,
    operation,
    read,
    read_operation,
    read_tool,
)
from toolbank.bank.records import HttpCall, Tool


def parameter(
    name: str, place: str, kind: str = "string", **more: Any
) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": kind}, **more}


def places(tool: Tool) -> dict[str, tuple[str, str]]:
    """By property: where it goes, and what it is called there."""
    assert isinstance(tool.call, HttpCall)
    return {one.property: (one.place, one.name) for one in tool.call.arguments}


def test_parameters_of_all_places_stand_beside_those_of_the_body(
    tmp_path: Path,
) -> None:
    body = {
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {}},
        },
        "required": ["note"],
    }
    listed = [
        parameter("id", "path", "integer", required=True),
        parameter("limit", "query", "integer", description="At most.", deprecated=True),
        parameter("X-Trace", "header"),
        parameter("session", "cookie"),
    ]
    said = operation(parameters=listed, requestBody=json_body(body))
    tool = read_tool(tmp_path, described({"/pets/{id}": {"put": said}}))
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "limit": {"type": "integer", "description": "At most.", "deprecated": True},
            "X-Trace": {"type": "string"},
            "session": {"type": "string"},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {}},
        },
        "required": ["id", "note"],
    }
    assert places(tool) == {
        "id": ("path", "id"),
        "limit": ("query", "limit"),
        "X-Trace": ("header", "X-Trace"),
        "session": ("cookie", "session"),
        "note": ("body", "note"),
        "tags": ("body", "tags"),
    }
    assert tool.call is not None and tool.call.type == "http"
    assert (tool.call.method, tool.call.path) == ("PUT", "/pets/{id}")
    assert tool.call.content_type == "application/json"


def test_an_operation_s_parameter_stands_for_its_path_s(tmp_path: Path) -> None:
    path = {
        "parameters": [
            parameter("id", "path", description="Any."),
            parameter("a", "query"),
            parameter("X-Trace", "header"),
        ],
        "get": operation(
            parameters=[
                parameter("id", "path", "integer"),
                parameter("x-trace", "header", "integer"),
            ]
        ),
    }
    tool = read_tool(tmp_path, described({"/pets/{id}": path}))
    assert tool.parameters["properties"] == {
        "id": {"type": "integer"},
        "a": {"type": "string"},
        "x-trace": {"type": "integer"},
    }
    assert tool.parameters["required"] == ["id"]


def test_a_parameter_that_its_list_has_twice_is_told(tmp_path: Path) -> None:
    twice = [parameter("n", "query"), parameter("n", "query", "integer")]
    collected = read(
        tmp_path, described({"/pets": {"get": operation(parameters=twice)}})
    )
    [tool] = collected.tools
    assert tool.parameters["properties"] == {"n": {"type": "integer"}}
    assert any(
        "a parameter that its list has twice" in note for note in collected.notes
    )


def test_names_of_two_places_stay_apart(tmp_path: Path) -> None:
    body = {
        "type": "object",
        "properties": {"id": {"type": "number"}},
        "required": ["id"],
    }
    listed = [
        parameter("id", "path"),
        parameter("id", "query"),
        parameter("id_body", "query"),
    ]
    said = operation(parameters=listed, requestBody=json_body(body))
    tool = read_tool(tmp_path, described({"/pets/{id}": {"put": said}}))
    assert places(tool) == {
        "id": ("path", "id"),
        "id_query": ("query", "id"),
        "id_body": ("query", "id_body"),
        "id_body_2": ("body", "id"),
    }
    assert tool.parameters["required"] == ["id", "id_body_2"]


def test_what_the_caller_s_credentials_and_content_types_say_is_no_parameter(
    tmp_path: Path,
) -> None:
    schemes = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "token": {"type": "http", "scheme": "bearer"},
    }
    listed = [
        parameter(name, "header")
        for name in ("Accept", "content-type", "Authorization", "x-key", "X-Page")
    ]
    tool = read_operation(
        tmp_path,
        parameters=listed,
        security=[{"key": []}, {"token": ["read"], "key": []}, {}],
        description_of={"components": {"securitySchemes": schemes}},
    )
    assert places(tool) == {"X-Page": ("header", "X-Page")}
    assert tool.call is not None and tool.call.type == "http"
    assert tool.call.security == (("key",), ("token", "key"), ())


def test_a_body_that_is_no_object_is_one_property(tmp_path: Path) -> None:
    pets = {"type": "array", "items": {"type": "string"}}
    tool = read_operation(tmp_path, "post", requestBody=json_body(pets))
    assert tool.parameters["properties"] == {"body": pets}
    assert tool.parameters["required"] == ["body"]
    assert places(tool) == {"body": ("body", "")}


def test_a_body_of_one_of_several_objects_stays_whole(tmp_path: Path) -> None:
    schemas = {
        name: {"type": "object", "properties": {name: {"type": "string"}}}
        for name in ("cat", "dog")
    }
    either = {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas]}
    tool = read_operation(
        tmp_path,
        "post",
        requestBody=json_body(either),
        description_of={"components": {"schemas": schemas}},
    )
    assert tool.parameters["properties"] == {
        "body": {"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]}
    }
    assert tool.parameters["$defs"] == schemas


def test_all_parts_of_an_all_of_are_properties(tmp_path: Path) -> None:
    base = {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
    both = {
        "allOf": [
            {"$ref": "#/components/schemas/Base"},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        ]
    }
    tool = read_operation(
        tmp_path,
        "post",
        requestBody=json_body(both),
        description_of={"components": {"schemas": {"Base": base}}},
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id", "name"],
    }


def test_which_properties_go_together_is_kept(tmp_path: Path) -> None:
    body = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "mail": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["mail"]}],
        "additionalProperties": False,
    }
    said = operation(parameters=[parameter("id", "path")], requestBody=json_body(body))
    tool = read_tool(tmp_path, described({"/pets/{id}": {"put": said}}))
    assert tool.parameters["anyOf"] == [
        {"required": ["id_body"]},
        {"required": ["mail"]},
    ]
    assert tool.parameters["additionalProperties"] is False


def test_what_a_body_that_may_be_left_out_requires_holds_where_it_is_given(
    tmp_path: Path,
) -> None:
    body = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    tool = read_operation(tmp_path, "post", requestBody=json_body(body, required=False))
    assert "required" not in tool.parameters
    assert tool.parameters["dependentRequired"] == {"age": ["name"]}


def test_what_only_the_server_sets_is_no_parameter(tmp_path: Path) -> None:
    body = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
        },
        "required": ["id", "name"],
    }
    tool = read_operation(tmp_path, "post", requestBody=json_body(body))
    assert [*tool.parameters["properties"]] == ["name"]
    assert tool.parameters["required"] == ["name"]


def test_json_is_taken_of_several_content_types(tmp_path: Path) -> None:
    contents = {
        "application/xml": {"schema": {"type": "string"}},
        "application/vnd.pets+json; charset=utf-8": {
            "schema": {"type": "object", "properties": {"name": {}}}
        },
        "multipart/form-data": {
            "schema": {"type": "object", "properties": {"file": {}}}
        },
    }
    tool = read_operation(tmp_path, "post", requestBody={"content": contents})
    assert places(tool) == {"name": ("body", "name")}
    assert tool.call is not None and tool.call.type == "http"
    assert tool.call.content_type == "application/vnd.pets+json; charset=utf-8"


def test_other_content_types_are_said(tmp_path: Path) -> None:
    form = {"schema": {"type": "object", "properties": {"file": {"type": "string"}}}}
    paths = {
        "/forms": {
            "post": operation(requestBody={"content": {"multipart/form-data": form}})
        },
        "/texts": {"post": operation(requestBody={"content": {"text/plain": {}}})},
    }
    forms, texts = read(tmp_path, described(paths)).tools
    assert places(forms) == {"file": ("form", "file")}
    assert places(texts) == {"body": ("body", "")}
    assert texts.parameters["properties"] == {"body": {"type": "string"}}
    calls = [tool.call for tool in (forms, texts) if isinstance(tool.call, HttpCall)]
    assert [one.content_type for one in calls] == ["multipart/form-data", "text/plain"]


def test_an_example_that_many_requests_share_stands_once(tmp_path: Path) -> None:
    shared = {name: {"value": {"day": 1}} for name in ("list", "make", "delete")}
    shared["other"] = {"value": 2}
    tool = read_operation(
        tmp_path, parameters=[parameter("a", "query", examples=shared)]
    )
    assert tool.parameters["properties"]["a"]["examples"] == [{"day": 1}, 2]


def test_a_form_s_encoding_and_a_referenced_media_type_are_read(tmp_path: Path) -> None:
    form = {
        "schema": {
            "type": "object",
            "properties": {"address": {"type": "object"}, "file": {}, "note": {}},
            "required": ["note"],
        },
        "encoding": {
            "address": {"style": "deepObject", "explode": True},
            "file": {"contentType": "application/xml"},
        },
    }
    body = {"content": {"multipart/form-data": {"$ref": "#/components/mediaTypes/F"}}}
    spec = described({"/pets": {"post": operation(requestBody=body)}})
    spec |= {"openapi": "3.2.0", "components": {"mediaTypes": {"F": form}}}
    tool = read_tool(tmp_path, spec)
    assert isinstance(tool.call, HttpCall)
    assert [(one.name, one.style, one.explode) for one in tool.call.arguments] == [
        ("address", "deepObject", True),
        ("file", "application/xml", None),
        ("note", "", None),
    ]


def test_a_parameter_may_have_content_style_and_examples(tmp_path: Path) -> None:
    listed: list[dict[str, Any]] = [
        {
            "name": "filter",
            "in": "query",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        parameter("ids", "query", "array", style="pipeDelimited", explode=False),
        parameter("day", "query", examples={"a": {"value": "monday"}}),
    ]
    tool = read_operation(tmp_path, parameters=listed)
    assert tool.parameters["properties"] == {
        "filter": {"type": "object"},
        "ids": {"type": "array"},
        "day": {"type": "string", "examples": ["monday"]},
    }
    assert tool.call is not None and tool.call.type == "http"
    written, ids, _ = tool.call.arguments
    assert written.style == "application/json"
    assert (ids.style, ids.explode) == ("pipeDelimited", False)


def test_what_a_path_names_and_nothing_describes_is_a_text(tmp_path: Path) -> None:
    tool = read_tool(tmp_path, described({"/pets/{id}/{part}": {"get": operation()}}))
    text = {"type": "string"}
    assert tool.parameters["properties"] == {"id": text, "part": text}
    assert tool.parameters["required"] == ["id", "part"]


def test_a_property_that_is_required_and_not_described_may_be_anything(
    tmp_path: Path,
) -> None:
    body = {"properties": {"name": {"type": "string"}}, "required": ["name", "age"]}
    tool = read_operation(tmp_path, "post", requestBody=json_body(body))
    assert tool.parameters["properties"] == {"name": {"type": "string"}, "age": {}}
    assert tool.parameters["required"] == ["name", "age"]
