"""Swagger 2.0: parameters with types of their own, bodies and forms among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sources.openapi_specs import operation, read, read_tool
from toolbank.bank.records import HttpCall


def swagger(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    info = {"title": "Pets", "version": "1"}
    return {"swagger": "2.0", "info": info, "paths": paths, **more}


def test_parameters_bodies_and_answers(tmp_path: Path) -> None:
    pet = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    said = {
        "consumes": ["application/xml", "application/json"],
        "parameters": [
            {
                "name": "id",
                "in": "path",
                "type": "integer",
                "format": "int64",
                "required": True,
            },
            {
                "name": "tags",
                "in": "query",
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
                "collectionFormat": "multi",
                "description": "Any of them.",
                "default": ["a"],
            },
            {
                "name": "pet",
                "in": "body",
                "required": True,
                "schema": {"$ref": "#/definitions/Pet"},
            },
        ],
        "responses": {
            "200": {"description": "", "schema": {"$ref": "#/definitions/Pet"}}
        },
    }
    description = swagger(
        {"/pets/{id}": {"put": said}},
        definitions={"Pet": pet},
        host="pets.example",
        basePath="/v2",
        schemes=["http", "https"],
        securityDefinitions={"key": {"type": "apiKey", "in": "query", "name": "key"}},
        security=[{"key": []}],
    )
    tool = read_tool(tmp_path, description)
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "format": "int64"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
                "default": ["a"],
                "description": "Any of them.",
            },
            "name": {"type": "string"},
        },
        "required": ["id", "name"],
    }
    assert tool.output_schema == pet
    call = tool.call
    assert isinstance(call, HttpCall)
    assert [(one.place, one.style, one.explode) for one in call.arguments] == [
        ("path", "", None),
        ("query", "form", True),
        ("body", "", None),
    ]
    assert call.content_type == "application/json"
    assert call.server == "https://pets.example/v2"
    assert call.security == (("key",),)


def test_forms_and_files(tmp_path: Path) -> None:
    listed = [
        {"name": "note", "in": "formData", "type": "string"},
        {"name": "photo", "in": "formData", "type": "file", "required": True},
    ]
    paths = {
        "/a": {"post": operation(parameters=listed)},
        "/b": {"post": operation(parameters=listed[:1])},
    }
    with_file, without = (tool for tool in read(tmp_path, swagger(paths)).tools)
    assert with_file.parameters["properties"] == {
        "note": {"type": "string"},
        "photo": {"type": "string", "format": "binary"},
    }
    calls = [
        tool.call for tool in (with_file, without) if isinstance(tool.call, HttpCall)
    ]
    assert [call.content_type for call in calls] == [
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    ]
    assert {one.place for call in calls for one in call.arguments} == {"form"}


def test_a_body_that_is_no_object_has_its_own_name(tmp_path: Path) -> None:
    body = {
        "name": "ids",
        "in": "body",
        "schema": {"type": "array", "items": {"type": "string"}},
    }
    tool = read_tool(
        tmp_path, swagger({"/pets": {"post": operation(parameters=[body])}})
    )
    assert [*tool.parameters["properties"]] == ["ids"]
    assert tool.call is not None and tool.call.type == "http"
    assert [(one.place, one.name) for one in tool.call.arguments] == [("body", "")]
