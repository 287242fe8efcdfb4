"""Schemas as JSON Schema 2020-12: what is shared stands once, what is data stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi_specs import (
    described,
    json_body,
    json_response,
    operation,
    read,
    read_operation,
    read_tool,
)
from toolbank.sources.openapi import reader
from toolbank.sources.openapi import schemas as bounds
from toolbank.system.errors import InputError

TREE = {
    "type": "object",
    "properties": {
        "value": {"$ref": "#/components/schemas/Value"},
        "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
    },
}
VALUE = {"type": "string", "description": "What it holds."}


def translated(folder: Path, schema: Any, version: str = "3.0.3") -> Any:
    """A schema of a property, as it is read."""
    tool = read_operation(
        folder,
        "post",
        requestBody=json_body({"type": "object", "properties": {"it": schema}}),
        description_of={"openapi": version},
    )
    return tool.parameters["properties"]["it"]


def test_a_recursive_schema_stands_once_with_what_it_needs(tmp_path: Path) -> None:
    schemas = {"Tree": TREE, "Value": VALUE, "Other": {"type": "object"}}
    tool = read_operation(
        tmp_path,
        "post",
        requestBody=json_body({"$ref": "#/components/schemas/Tree"}),
        responses=json_response({"$ref": "#/components/schemas/Tree"}),
        description_of={"components": {"schemas": schemas}},
    )
    tree = {
        "type": "object",
        "properties": {
            "value": {"$ref": "#/$defs/Value"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        },
    }
    assert tool.parameters == {**tree, "$defs": {"Tree": tree, "Value": VALUE}}
    assert tool.output_schema == {**tree, "$defs": {"Tree": tree, "Value": VALUE}}


def test_tools_share_the_objects_of_what_they_share(tmp_path: Path) -> None:
    said = operation(
        requestBody=json_body(
            {"properties": {"tree": {"$ref": "#/components/schemas/Tree"}}}
        )
    )
    description = described(
        {"/a": {"post": said}, "/b": {"post": said}},
        components={"schemas": {"Tree": TREE, "Value": VALUE}},
    )
    one, other = read(tmp_path, description).tools
    for name in ("Tree", "Value"):
        assert one.parameters["$defs"][name] is other.parameters["$defs"][name]


@pytest.mark.parametrize(
    ("said", "read_as"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"allOf": [{"type": "object"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMinimum": 2}, {"exclusiveMinimum": 2}),
        ({"type": "string", "example": "cat"}, {"type": "string", "examples": ["cat"]}),
        (
            {
                "type": "object",
                "xml": {},
                "discriminator": {},
                "x-internal": 1,
                "externalDocs": {},
            },
            {"type": "object"},
        ),
        ({"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"type": "object", "required": True}, {"type": "object"}),
        (
            {"properties": {"$ref": {"type": "string"}}},
            {"properties": {"$ref": {"type": "string"}}},
        ),
    ],
)
def test_keywords_of_open_api_3_0_are_said_in_those_of_json_schema(
    tmp_path: Path, said: Any, read_as: Any
) -> None:
    assert translated(tmp_path, said) == read_as


@pytest.mark.parametrize("key", ["default", "example"])
def test_data_that_looks_like_a_reference_is_data(tmp_path: Path, key: str) -> None:
    data = {"$ref": "#/nowhere", "nullable": True}
    kept = translated(tmp_path, {key: data, "enum": [data]})
    assert kept["enum"] == [data]
    assert kept.get("default", kept.get("examples")) in (data, [data])


def test_constraints_beside_a_reference_count_from_3_1_on(tmp_path: Path) -> None:
    said = {"$ref": "#/components/schemas/Value", "description": "Own.", "maxLength": 3}
    for version, kept in (("3.0.3", {}), ("3.1.0", {"maxLength": 3})):
        body = json_body({"properties": {"it": said}})
        tool = read_operation(
            tmp_path,
            "post",
            requestBody=body,
            description_of={
                "openapi": version,
                "components": {"schemas": {"Value": VALUE}},
            },
        )
        it = tool.parameters["properties"]["it"]
        assert it == {"$ref": "#/$defs/Value", "description": "Own.", **kept}


def test_what_is_no_schema_is_told_and_the_rest_read(tmp_path: Path) -> None:
    body = {
        "type": "object",
        "properties": {
            "a": {"type": "date", "maxLength": "3", "pattern": "(", "title": "A"},
            "b": "string",
        },
    }
    said = described({"/pets": {"post": operation(requestBody=json_body(body))}})
    collected = read(tmp_path, said)
    assert collected.tools[0].parameters["properties"] == {"a": {"title": "A"}, "b": {}}
    place = "pets.json#/paths/~1pets/post/requestBody/content/application~1json/schema"
    for what in (
        f'`type` can\'t be "date" at {tmp_path}/{place}/properties/a/type',
        f'`maxLength` can\'t be "3" at {tmp_path}/{place}/properties/a/maxLength',
        f"a schema that is no object at {tmp_path}/{place}/properties/b",
    ):
        assert f"openapi:pets.json: {what}" in collected.problems
    assert any("`pattern`" in note for note in collected.notes)


@pytest.mark.filterwarnings("error")
def test_python_says_nothing_of_patterns_that_others_write(tmp_path: Path) -> None:
    pattern = {"type": "string", "pattern": "[[a-z]&&[^b]]"}
    assert translated(tmp_path, pattern) == pattern


def test_two_schemas_of_one_name_stay_two(tmp_path: Path) -> None:
    definitions = {"a": {"definitions": {"Pet": {"type": "string"}}}}
    body = {
        "properties": {
            "one": {"$ref": "#/components/schemas/Pet"},
            "other": {"$ref": "#/components/schemas/a/definitions/Pet"},
        }
    }
    tool = read_operation(
        tmp_path,
        "post",
        requestBody=json_body(body),
        description_of={
            "components": {"schemas": {"Pet": {"type": "object"}, **definitions}}
        },
    )
    assert tool.parameters["$defs"] == {
        "Pet": {"type": "object"},
        "Pet_2": {"type": "string"},
    }


def test_the_output_is_the_json_of_the_first_response_that_is_good(
    tmp_path: Path,
) -> None:
    responses = {
        "404": json_response({"type": "string"})["200"],
        "202": {"description": "Later."},
        "2XX": json_response({"type": "integer"})["200"],
        "default": json_response({"type": "object"})["200"],
    }
    assert read_operation(tmp_path, responses=responses).output_schema == {
        "type": "integer"
    }
    only = {"default": responses["default"]}
    assert read_operation(tmp_path, responses=only).output_schema == {"type": "object"}
    assert read_operation(tmp_path).output_schema is None


def test_booleans_are_schemas(tmp_path: Path) -> None:
    tool = read_tool(
        tmp_path,
        described(
            {
                "/pets": {
                    "post": operation(
                        requestBody=json_body({"properties": {"a": True, "b": False}})
                    )
                }
            }
        ),
    )
    assert tool.parameters["properties"] == {"a": {}, "b": {"not": {}}}


def test_an_output_that_refers_to_all_there_is_has_the_nearest(tmp_path: Path) -> None:
    schemas = {
        f"S{number}": {
            "title": f"The {number}th",
            "description": "word " * 2_000,
            "properties": {"next": {"$ref": f"#/components/schemas/S{number + 1}"}},
        }
        for number in range(20)
    }
    schemas["S20"] = {"type": "string"}
    said = operation(
        requestBody=json_body(
            {"type": "array", "items": {"$ref": "#/components/schemas/S0"}}
        ),
        responses=json_response({"$ref": "#/components/schemas/S0"}),
    )
    description = described({"/pets": {"post": said}}, components={"schemas": schemas})
    collected = read(tmp_path, description)
    (tool,) = collected.tools
    assert len(tool.parameters["$defs"]) == 21
    assert tool.output_schema is not None
    near = tool.output_schema["$defs"]
    assert [*near] == sorted(f"S{number}" for number in range(1, 11))
    assert near["S9"]["properties"] == {"next": {"$ref": "#/$defs/S10"}}
    assert near["S10"] == {"title": "The 10th"}
    assert "an output of over 100,000 characters has the nearest" in collected.notes[0]


def test_what_all_tools_refer_to_is_bounded_in_sum_and_each_has_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = {
        f"S{number}": {
            "properties": {"next": {"$ref": f"#/components/schemas/S{after}"}}
        }
        for number, after in enumerate([*range(1, 40), 0])
    }
    paths = {
        f"/p{number}": {
            "post": operation(
                requestBody=json_body(
                    {"properties": {"a": {"$ref": f"#/components/schemas/S{number}"}}}
                )
            )
        }
        for number in range(40)
    }
    description = described(paths, components={"schemas": ring})
    collected = read(tmp_path, description)
    assert not collected.notes
    assert all(len(tool.parameters["$defs"]) == 40 for tool in collected.tools)
    monkeypatch.setattr(bounds, "_MOST", 20_000)
    collected = read(tmp_path, description)
    (note,) = collected.notes
    assert "refer to over 20,000 characters of schemas" in note
    assert "has the nearest 500 alone (40 times)" in note
    for tool in collected.tools:
        near = tool.parameters["$defs"]
        written = {name: one for name, one in near.items() if "properties" in one}
        assert tool.name.replace("post_p", "S") in written
        assert 5 < len(written) < 40 and len(json.dumps(written)) < 550
        assert [one for one in near.values() if one not in written.values()] == [
            {"title": name} for name in near if name not in written
        ]


def test_an_api_of_millions_of_parameters_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json_body({"properties": {f"p{number}": {} for number in range(60)}})
    paths = {f"/{number}": {"post": operation(requestBody=body)} for number in range(2)}
    assert len(read(tmp_path, described(paths)).tools) == 2
    monkeypatch.setattr(reader, "_MOST_PARAMETERS", 100)
    with pytest.raises(InputError, match=r"pets\.json: .* over 100 parameters in all"):
        read(tmp_path, described(paths))
