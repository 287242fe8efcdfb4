"""Descriptions of APIs, written to a file and read."""

import json
import re

from jsonschema import Draft202012Validator

from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource

NAMED = {"properties", "patternProperties", "$defs", "dependentSchemas"} | {
    "dependentRequired"
}
"""Keywords whose members have names that are none of keywords, such as a property "$ref"."""
OK = {"200": {"description": "Fine."}}


def described(paths, **more):
    """A description of OpenAPI 3.1 with these paths."""
    info = {"title": "Pets", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": paths, **more}


def operation(**more):
    return {"responses": OK, **more}


def json_body(schema, *, required=True):
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def json_response(schema):
    content = {"application/json": {"schema": schema}}
    return {"200": {"description": "Fine.", "content": content}}


def read(folder, description, **options):
    """What is read of a description; every tool of it is sound."""
    file = folder / "pets.json"
    file.write_text(json.dumps(description), "utf-8")
    collected = KIND.read(OpenApiSource(spec=str(file), **options), folder)
    for tool in collected.tools:
        assert_sound(tool)
    return collected


def assert_sound(tool):
    """Schemas are ones of JSON Schema 2020-12, references lead to `$defs`, arguments to properties."""
    for schema in (tool.parameters, tool.output_schema):
        if schema is not None:
            Draft202012Validator.check_schema(schema)
            assert set(references(schema)) <= schema.get("$defs", {}).keys()
            # Whatever is valid or not, no reference leads nowhere or round for ever.
            Draft202012Validator(schema).is_valid({"a": [1, {"b": "c"}]})
    properties = tool.parameters["properties"]
    assert tool.call is not None and tool.call.type == "http"
    assert [one.property for one in tool.call.arguments] == [*properties]
    assert set(tool.parameters.get("required", [])) <= properties.keys()


def references(schema, *, holds_names=False):
    """The names that references of a schema lead to, but not those in its data."""
    if isinstance(schema, list):
        return [name for part in schema for name in references(part)]
    if not isinstance(schema, dict):
        return []
    found = []
    for key, part in schema.items():
        if key == "$ref" and not holds_names:
            assert isinstance(part, str) and re.fullmatch(r"#/\$defs/[\w.-]+", part)
            found.append(part.removeprefix("#/$defs/"))
        elif holds_names or key not in ("default", "const", "enum", "examples"):
            found += references(part, holds_names=key in NAMED and not holds_names)
    return found
