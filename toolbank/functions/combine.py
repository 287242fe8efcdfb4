"""Schemas that are combined of others (`allOf`, `anyOf`, `oneOf`), as one."""

from __future__ import annotations

from typing import Any

from toolbank.functions.inline import find_target

_COMBINED = ("allOf", "anyOf", "oneOf")
_REFUSED = (*_COMBINED, "not", "enum", "const", "if", "then", "else")


def as_object(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A schema of parameters that is an object by itself, and what that cut, "" for nothing.

    APIs refuse a combination at the top. Its parts' properties are the object's; required are
    those that the object or a part of `allOf` requires.
    """
    said = [key for key in _REFUSED if key in schema]
    parts = {
        key: [_resolve(part, schema) for part in schema[key]]
        for key in _COMBINED
        if isinstance(schema.get(key), list)
    }
    whole = {k: v for k, v in schema.items() if k not in (*_REFUSED, "$ref")}
    if "$ref" in schema:
        parts.setdefault("allOf", []).append(_resolve(schema, schema))
    whole = merge_all({**whole, "allOf": parts.get("allOf", [])})
    for key in (*_REFUSED, "$ref"):
        whole.pop(key, None)
    for part in (*parts.get("anyOf", ()), *parts.get("oneOf", ())):
        properties = part.get("properties") if isinstance(part, dict) else None
        if isinstance(properties, dict):
            whole["properties"] = {**properties, **whole.get("properties", {})}
    whole = {**whole, "type": "object", "properties": whole.get("properties", {})}
    return whole, f"at the top: {', '.join(said)}" if said else ""


def merge_all(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with the parts of its `allOf` in it: what it says itself counts before them."""
    parts = schema.get("allOf")
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        for key, value in merge_all(part).items():
            known = merged.get(key)
            if key == "properties" and isinstance(known, dict):
                merged[key] = {**value, **known}
            elif key == "required" and isinstance(known, list):
                merged[key] = [*known, *(name for name in value if name not in known)]
            else:
                merged.setdefault(key, value)
    return merged


def _resolve(part: Any, root: dict[str, Any]) -> Any:
    """A part, with what it refers to in it."""
    seen: set[str] = set()
    while isinstance(part, dict) and isinstance(part.get("$ref"), str):
        pointer = part["$ref"]
        target = None if pointer in seen else find_target(root, pointer)
        seen.add(pointer)
        own = {key: value for key, value in part.items() if key != "$ref"}
        part = {**target, **own} if isinstance(target, dict) else own
    return part
