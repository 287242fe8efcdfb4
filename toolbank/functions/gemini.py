"""Gemini's `Schema`, a part of JSON Schema (https://ai.google.dev/api/caching#Schema)."""

from __future__ import annotations

import re
from typing import Any

from toolbank.functions.combine import merge_all

_KEYS = frozenset(
    {
        *(
            "format",
            "title",
            "description",
            "nullable",
            "default",
            "pattern",
            "example",
        ),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
        *("minLength", "maxLength", "minimum", "maximum"),
    }
)
_LONGEST_NAME = 64
_FORMATS = ("float", "double", "int32", "int64", "date-time")
_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def gemini_name(name: str) -> str:
    """The name of a function, which begins with a letter or an underscore there."""
    return name if re.match("[a-zA-Z_]", name) else f"_{name}"[:_LONGEST_NAME]


def as_gemini(schema: Any, lost: set[str]) -> dict[str, Any]:
    """A schema without references as Gemini has it; keys that it has not are added to `lost`.

    A union is one alone there, with its description in each of its parts, and an enumeration is of
    texts that are not empty.
    """
    if not isinstance(schema, dict):
        return {"type": "STRING"}
    schema = merge_all(schema)
    union, kinds = _union(schema), _kinds(schema)
    if len(kinds) > 1 and not union:
        union = [{**schema, "type": kind} for kind in kinds]
    parts = [part for part in union if part.get("type") != "null"]
    nullable = _is_nullable(schema) or len(parts) < len(union)
    own = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "nullable")}
    if parts and "properties" in schema:
        lost.update(schema.keys() & {"anyOf", "oneOf"})
    elif len(parts) == 1:
        own |= {"nullable": True} if nullable else {}
        return as_gemini({**parts[0], **own}, lost)
    elif parts:
        lost.update(own.keys() - {"type", "description"} if _union(schema) else ())
        shared = {k: own[k] for k in ("description",) if k in own}
        shared |= {"nullable": True} if nullable else {}
        return {"anyOf": [as_gemini({**shared, **part}, lost) for part in parts]}
    written = _write(own, kinds[0] if kinds else "", lost)
    return {**written, "nullable": True} if nullable else written


def _write(schema: dict[str, Any], kind: str, lost: set[str]) -> dict[str, Any]:
    """One that is no union."""
    written: dict[str, Any] = {"type": (kind or _guess(schema)).upper()}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            if written["type"] == "OBJECT":
                written[key] = {
                    name: as_gemini(one, lost) for name, one in value.items()
                }
        elif key == "items" and written["type"] == "ARRAY":
            written[key] = as_gemini(value, lost)
        elif key == "required" and isinstance(value, list):
            known = schema.get("properties")
            names = [n for n in value if isinstance(known, dict) and n in known]
            if names and written["type"] == "OBJECT":
                written[key] = names
        elif key in ("enum", "const"):
            values = value if isinstance(value, list) and key == "enum" else [value]
            texts = [one for one in values if isinstance(one, str) and one]
            if texts and written["type"] == "STRING":
                written["enum"] = texts
            if len(texts) < len([one for one in values if one is not None]):
                lost.add(key)
        elif key in _KEYS and (key != "format" or value in _FORMATS):
            written[key] = value
        elif key not in ("type", "items", "properties", "required"):
            lost.add(key)
    if written["type"] == "ARRAY":
        # One without them is refused.
        written.setdefault("items", {"type": "STRING"})
    return written


def _union(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that a schema may be one of."""
    parts = schema.get("anyOf") or schema.get("oneOf")
    return [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in listed if isinstance(kind, str) and kind != "null"]


def _is_nullable(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    values = schema.get("enum")
    return bool(
        schema.get("nullable") is True
        or (isinstance(kinds, list) and "null" in kinds)
        or (isinstance(values, list) and None in values)
    )


def _guess(schema: dict[str, Any]) -> str:
    """The type of a schema that says none."""
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum")
    first = values[0] if isinstance(values, list) and values else schema.get("const")
    return _TYPES.get(type(first), "string")
