"""Schemas of parameters that are none, made into some."""

from __future__ import annotations

from typing import Any

from toolbank.sources.tool_check import SchemaCheck


def mend_parameters(schema: Any, check: SchemaCheck) -> tuple[dict[str, Any], str]:
    """The parameters of a tool as a JSON Schema of an object, and what was mended, or "".

    A property of which there is prose instead of a schema has that as its description; one whose
    schema is none keeps the keywords that are right, at any depth. `required: true` within a
    property makes it required.
    """
    if isinstance(schema, dict) and not check.explain(schema):
        return schema, ""
    if schema is None:
        return _nothing(), "no schema"
    if not isinstance(schema, dict):
        return _nothing(), "a schema that is no object"
    kind, properties = schema.get("type", "object"), schema.get("properties")
    properties = {} if properties is None else properties
    if not isinstance(properties, dict) or (kind != "object" and not properties):
        return _nothing(), "a schema that describes no object"
    schema = _with_required(schema)
    mended = {
        **schema,
        "type": "object",
        "properties": {n: _mend_property(p, check) for n, p in properties.items()},
    }
    if not check.explain(mended):
        return mended, "a schema that is no JSON Schema in parts"
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    bare = {
        **_nothing(),
        "properties": mended["properties"],
        "required": [n for n in dict.fromkeys(map(str, names)) if n in properties],
    }
    trouble = "a schema that is no JSON Schema in parts"
    return (_nothing() if check.explain(bare) else bare), trouble


def _mend_property(schema: Any, check: SchemaCheck) -> dict[str, Any]:
    if isinstance(schema, str):
        return {"description": schema}
    if not isinstance(schema, dict):
        return {}
    if not check.explain_schema(schema):
        return schema
    nested = {**schema}
    if isinstance(schema.get("properties"), dict):
        nested = _with_required(schema)
        nested["properties"] = {
            n: _mend_property(p, check) for n, p in schema["properties"].items()
        }
    if isinstance(schema.get("items"), dict):
        nested["items"] = _mend_property(schema["items"], check)
    return {
        key: part
        for key, part in nested.items()
        if not check.explain_schema({key: part})
    }


def _with_required(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object, with properties that say `required: true` listed as required."""
    asked = [
        name
        for name, one in (schema.get("properties") or {}).items()
        if isinstance(one, dict) and one.get("required") is True
    ]
    listed = schema.get("required")
    listed = listed if isinstance(listed, list) else []
    if not asked:
        return {**schema}
    return {**schema, "required": [*listed, *(n for n in asked if n not in listed)]}


def _nothing() -> dict[str, Any]:
    return {"type": "object", "properties": {}}
