"""Walking through a JSON Schema that pydantic made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def resolve(schema: Schema, root: Schema) -> Schema:
    """A schema in place of a reference to it, and of a choice between it and null alone."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return resolve(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root)
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    return resolve(kinds[0], root) if len(kinds) == 1 else schema


def kinds_of(schema: Schema, value: Any) -> list[Schema]:
    """The schemas that a value may fit, where there is a choice: the one that its tag names."""
    choice = schema.get("discriminator", {})
    if tagged := choice.get("mapping"):
        tag = choice.get("default")
        if isinstance(value, Mapping):
            tag = value.get("type", tag)
        known = isinstance(tag, str) and tag in tagged
        return [{"$ref": tagged[tag]}] if known else [{}]
    return list(schema.get("oneOf") or schema.get("anyOf") or ())
