"""Keywords that OpenAPI and Swagger say otherwise than JSON Schema 2020-12, and hold no schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolbank.sources.schema_check import COUNTS, TYPES, are_texts, is_number

Schema = dict[str, Any]


def _read_flag(schema: Schema, key: str, item: Any) -> bool:
    if item is True:  # false says no more than its absence
        schema[key] = True
    return isinstance(item, bool)


def _read_count(schema: Schema, key: str, item: Any) -> bool:
    """3.0 is a count, too."""
    if not is_number(item) or item < 0 or item != item // 1:
        return False
    schema[key] = int(item)
    return True


def _read_limit(schema: Schema, key: str, item: Any) -> bool:
    """`exclusiveMinimum` is a flag of `minimum` up to OpenAPI 3.0 (see `join_keywords`)."""
    if is_number(item):
        schema[key] = item
    return is_number(item) or isinstance(item, bool)


def _read_names(schema: Schema, key: str, item: Any) -> bool:
    if not are_texts(item):
        return False
    schema[key] = list(dict.fromkeys(item))
    return True


def _read_name_lists(schema: Schema, key: str, item: Any) -> bool:
    if not isinstance(item, dict) or not all(map(are_texts, item.values())):
        return False
    schema[key] = {name: list(dict.fromkeys(item[name])) for name in item}
    return True


def _read_type(schema: Schema, key: str, item: Any) -> bool:
    if isinstance(item, str):
        if item in TYPES:
            schema[key] = item
        elif item == "file":
            schema[key], schema["format"] = "string", "binary"
        else:
            return False
        return True
    if not are_texts(item):
        return False
    known = [name for name in dict.fromkeys(item) if name in TYPES]
    if known:
        schema[key] = known
    return len(known) == len(set(item))


def _read_example(schema: Schema, _: str, item: Any) -> bool:
    schema.setdefault("examples", [item])
    return True


READERS: dict[str, Callable[[Schema, str, Any], bool]] = {
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _read_flag),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _read_limit),
    **dict.fromkeys(COUNTS, _read_count),
    "required": _read_names,
    "dependentRequired": _read_name_lists,
    "type": _read_type,
    "example": _read_example,
}
"""Each puts a keyword into the schema, and says whether its value is one."""


def join_keywords(schema: Schema, value: dict[str, Any]) -> Schema:
    """Translate what is said by two keywords together."""
    for limit, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        if value.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)
    if value.get("nullable") is True or value.get("x-nullable") is True:
        return _or_null(schema)
    return schema


def _or_null(schema: Schema) -> Schema:
    kind = schema.get("type")
    if kind is not None:
        kinds = [kind] if isinstance(kind, str) else kind
        if "null" not in kinds:
            schema["type"] = [*kinds, "null"]
        values = schema.get("enum")
        if values is not None and None not in values:
            schema["enum"] = [*values, None]
        return schema
    for key in ("anyOf", "oneOf"):
        if key in schema:
            if {"type": "null"} not in schema[key]:
                schema[key] = [*schema[key], {"type": "null"}]
            return schema
    if "$ref" in schema or "allOf" in schema:
        rest = {key: schema.pop(key) for key in ("$ref", "allOf") if key in schema}
        schema["anyOf"] = [rest, {"type": "null"}]
    return schema
