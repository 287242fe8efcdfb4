"""Objects that can be told as parameters of their own, one a property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toolbank.sources.openapi.keywords import Schema

_SAID = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated"),
        *("readOnly", "writeOnly", "minProperties", "maxProperties"),
    }
)
"""Keywords that a list of parameters does without."""

_FLAT = frozenset({"$ref", "type", "properties", "required", "allOf"})


@dataclass
class Flat:
    """An object's properties, which of them it requires, and what else holds of them together.

    `rules` are keywords that go by the names of properties; `rest` is the schema of properties
    that have no name, True for anything.
    """

    properties: dict[str, Schema] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    rules: list[Schema] = field(default_factory=list)
    rest: Any = True


def flatten(schema: Schema, target: Callable[[Schema], Schema]) -> Flat | None:
    """The properties of an object, those of all parts of its `allOf` among them.

    `target` gives what a schema that is a reference leads to. None for what is no object, has no
    properties, or can't be told by its properties alone, such as one of several objects.
    """
    flat = Flat()
    if not _add(flat, schema, target, 0) or not flat.properties:
        return None
    for name in flat.required:  # which may be one that is not described
        flat.properties.setdefault(name, {})
    return flat


def _add(
    flat: Flat, schema: Schema, target: Callable[[Schema], Schema], depth: int
) -> bool:
    schema = target(schema)
    if depth > 20 or not _is_object(schema) or "$ref" in schema:
        return False
    for key, item in schema.items():
        if key == "properties":
            for name, part in item.items():
                known = flat.properties.get(name)
                if known is not None and known is not part and known != part:
                    return False
                flat.properties[name] = part
        elif key == "required":
            flat.required += [name for name in item if name not in flat.required]
        elif key == "allOf":
            if not all(_add(flat, part, target, depth + 1) for part in item):
                return False
        elif key == "additionalProperties":
            if depth and item not in (True, {}):
                return False
            flat.rest = item
        elif key in ("anyOf", "oneOf", "not", "dependentRequired"):
            if not _is_rule(key, item):
                return False
            flat.rules.append({key: item})
        elif key not in _SAID and key not in _FLAT:
            return False
    return True


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_rule(key: str, item: Any) -> bool:
    """Whether a keyword says no more than which properties go together."""
    if key == "dependentRequired":
        return True
    parts = item if isinstance(item, list) else [item]
    return all(
        not part.keys() - {"required", "not", "title", "description", "type"}
        and ("not" not in part or _is_rule("not", part["not"]))
        and _is_object(part)
        for part in parts
    )
