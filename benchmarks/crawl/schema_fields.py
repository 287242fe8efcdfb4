"""The fields of a JSON Schema, in the paths and types of a reading."""

from collections.abc import Iterator
from typing import Any

from judged import json_type
from reading import Field, condensed

Schema = dict[str, Any]


def flatten(schema: Schema, nested: bool) -> dict[str, Field]:
    """Path and field of all properties, in order; `type` holds the JSON types, by spaces."""
    return dict(_members("", schema, nested))


def _members(path: str, schema: Schema, nested: bool) -> Iterator[tuple[str, Field]]:
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        yield from _member(
            f"{path}.{name}".lstrip("."), inner, name in required, nested
        )
    if not nested:
        return
    for key, mark in (
        ("items", "[]"),
        ("propertyNames", "{key}"),
        ("additionalProperties", "{}"),
    ):
        if isinstance(schema.get(key), dict) and (
            key != "propertyNames" or schema[key].get("description")
        ):
            yield from _member(f"{path}{mark}", schema[key], False, nested)


def _member(
    path: str, schema: Schema, required: bool, nested: bool
) -> Iterator[tuple[str, Field]]:
    yield path, _field(path, schema, required)
    if nested:
        yield from _members(path, schema, nested)


def _field(path: str, schema: Schema, required: bool) -> Field:
    return Field(
        path,
        " ".join(sorted(schema_types(schema))),
        required,
        frozenset({condensed(schema.get("description", ""))}),
        schema.get("default", ...),
        tuple(value for value in _enum(schema) if value is not None),
    )


def schema_types(schema: Schema) -> set[str]:
    """The JSON types that a schema names, in its alternatives and enumerations too."""
    named = schema.get("type", [])
    types = {named} if isinstance(named, str) else set(named)
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        types |= schema_types(inner)
    if "enum" in schema and not named:
        types |= {json_type(value) for value in schema["enum"]}
    if "const" in schema:
        types.add(json_type(schema["const"]))
    return types


def _enum(schema: Schema) -> list[object]:
    values = list(schema.get("enum", ()))
    if "const" in schema:
        values.append(schema["const"])
    for inner in schema.get("anyOf", ()):
        values += _enum(inner)
    return values
