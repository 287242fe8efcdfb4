"""Descriptions of many files, and what stands for their content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi_specs import (
    assert_sound,
    described,
    json_body,
    operation,
)
from tests.sources.sphinx_server import SiteServer
from toolbank.sources.kind import ToolCollection
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A description whose paths, parameters and schemas stand in files of their own."""
    folder = tmp_path / "api"
    (folder / "paths").mkdir(parents=True)
    (folder / "paths" / "pets.yaml").write_text(
        """
post:
  parameters: [{$ref: '../parameters.json#/limit'}]
  requestBody: {content: {application/json: {schema: {$ref: ../schemas/Pet.json}}}}
  responses:
    "201": {content: {application/json: {schema: {$ref: ../openapi.json#/components/schemas/Id}}}}
"""
    )
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
    pets = {"type": "array", "items": {"$ref": "./Pet.json#"}}
    properties = {
        "owner": {"$ref": "common.json#/definitions/Owner"},
        "mother": {"$ref": "Pet.json"},
    }
    files = {
        "openapi": described(
            {"/pets": {"$ref": "paths/pets.yaml"}},
            components={"schemas": {"Id": {"type": "integer"}}},
        ),
        "parameters": {"limit": limit},
        "schemas/Pet": {"properties": properties},
        "schemas/common": {"definitions": {"Owner": {"properties": {"pets": pets}}}},
    }
    for name, content in files.items():
        write(folder / f"{name}.json", content)
    return folder / "openapi.json"


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), "utf-8")


def read(spec: Path, **options: Any) -> ToolCollection:
    collected = KIND.read(OpenApiSource(spec=str(spec), **options), spec.parent)
    for tool in collected.tools:
        assert_sound(tool)
    return collected


def test_files_are_read_as_if_they_were_one(spec):
    collected = read(spec)
    assert not collected.problems and not collected.notes
    (tool,) = collected.tools
    pet = {
        "properties": {
            "owner": {"$ref": "#/$defs/Owner"},
            "mother": {"$ref": "#/$defs/Pet"},
        }
    }
    pets = {"type": "array", "items": {"$ref": "#/$defs/Pet"}}
    assert tool.parameters == {
        "type": "object",
        "properties": {"limit": {"type": "integer"}, **pet["properties"]},
        "$defs": {"Owner": {"properties": {"pets": pets}}, "Pet": pet},
    }
    assert tool.output_schema == {"type": "integer"}


def test_a_change_of_any_file_is_one_of_the_content(spec):
    config = OpenApiSource(spec=str(spec))
    seen = {KIND.version(config)}
    for file in sorted(spec.parent.rglob("*.*")):
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        seen.add(KIND.version(config))
        file.write_bytes(before)
    assert len(seen) == 6
    (spec.parent / "other.json").write_text("{}")
    assert KIND.version(config) in seen


def test_files_outside_the_folder_are_named_and_not_read(spec):
    outside = spec.parent.parent / "secret.json"
    write(outside, {"type": "string", "description": "secret"})
    body = json_body({"properties": {"it": {"$ref": "../secret.json"}}})
    write(spec, described({"/pets": {"post": operation(requestBody=body)}}))
    collected = read(spec)
    (problem,) = collected.problems
    assert "../secret.json" in problem and "`root:`" in problem
    assert collected.tools[0].parameters["properties"] == {"it": {}}
    widened = read(spec, root=spec.parent.parent)
    assert not widened.problems
    assert widened.tools[0].parameters["$defs"]["secret"]["description"] == "secret"


def test_files_of_a_site_are_asked_for_once_and_read_as_those_of_a_folder(
    spec,
):
    (of_folder,) = read(spec).tools
    with SiteServer(spec.parent) as site:
        source = OpenApiSource(spec=f"{site.url}openapi.json")
        collected = KIND.read(source, spec.parent)
    (of_site,) = collected.tools
    assert not collected.problems
    assert of_site.parameters == of_folder.parameters
    assert of_site.output_schema == of_folder.output_schema
    assert sorted(site.asked) == [
        *("/openapi.json", "/parameters.json", "/paths/pets.yaml", "/schemas/Pet.json"),
        "/schemas/common.json",
    ]
