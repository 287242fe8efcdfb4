"""Whether a schema is one of JSON Schema 2020-12: quickly where it is sound, and else why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_TYPES = frozenset(
    {"string", "number", "integer", "boolean", "object", "array", "null"}
)


def explain_unsound(schema: dict[str, Any]) -> str:
    """What the metaschema says against a schema, after the path to it; "" where it is sound."""
    from jsonschema.exceptions import best_match

    if _is_surely_sound(schema):
        return ""
    error = best_match(_validator().iter_errors(schema))
    return (
        "" if error is None else f"{error.json_path.removeprefix('$')}: {error.message}"
    )


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(
        Draft202012Validator.META_SCHEMA,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )


def _is_surely_sound(schema: dict[str, Any]) -> bool:
    """Whether all keywords are known to be right: the metaschema takes a thousand times longer."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if part.__class__ is not dict:
            if isinstance(part, bool):
                continue
            return False
        for key, value in part.items():
            check = _CHECKS.get(key)
            if check is None:
                if key in _RARE:
                    return False
            elif not check(value, waiting):
                return False
    return True


# Each says whether a keyword's value is surely sound once the schemas that it adds are.
def _is_text(value: Any, _: list[Any]) -> bool:
    return isinstance(value, str)


def _is_anything(*_: Any) -> bool:
    return True


def _is_list(value: Any, _: list[Any]) -> bool:
    return isinstance(value, list)


def _is_flag(value: Any, _: list[Any]) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any, _: list[Any]) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_step(value: Any, _: list[Any]) -> bool:
    return _is_number(value, _) and value > 0


def _is_count(value: Any, _: list[Any]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_type(value: Any, _: list[Any]) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _are_names(value, _) and bool(value) and _TYPES.issuperset(value)


def _are_names(value: Any, _: list[Any]) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def _is_pattern(value: Any, _: list[Any]) -> bool:
    return isinstance(value, str) and _compiles(value)


@cache
def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except Exception:  # whatever it is, the metaschema's own check tells it
        return False
    return True


def _is_schema(value: Any, waiting: list[Any]) -> bool:
    waiting.append(value)
    return True


def _are_schemas(value: Any, waiting: list[Any]) -> bool:
    if not isinstance(value, list) or not value:
        return False
    waiting += value
    return True


def _are_named(value: Any, waiting: list[Any]) -> bool:
    if not isinstance(value, dict):
        return False
    waiting += value.values()
    return True


def _are_named_by_pattern(value: Any, waiting: list[Any]) -> bool:
    return _are_named(value, waiting) and all(map(_compiles, value))


def _are_named_names(value: Any, _: list[Any]) -> bool:
    return isinstance(value, dict) and all(_are_names(v, _) for v in value.values())


_CHECKS: dict[str, Callable[[Any, list[Any]], bool]] = {
    "type": _is_type,
    **dict.fromkeys(("title", "description", "format", "$comment"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("default", "const"), _is_anything),
    **dict.fromkeys(("enum", "examples"), _is_list),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _is_flag),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    "multipleOf": _is_step,
    "required": _are_names,
    "dependentRequired": _are_named_names,
    "pattern": _is_pattern,
    "$ref": _is_text,
    **dict.fromkeys(("items", "additionalProperties", "not"), _is_schema),
    **dict.fromkeys(("propertyNames", "if", "then", "else"), _is_schema),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _is_schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _are_schemas),
    **dict.fromkeys(("properties", "$defs"), _are_named),
    "patternProperties": _are_named_by_pattern,
}
_RARE = frozenset(
    {
        *("$id", "$schema", "$anchor", "$vocabulary", "$dynamicRef", "$dynamicAnchor"),
        *("$recursiveRef", "$recursiveAnchor", "definitions", "dependencies"),
        *(
            "dependentSchemas",
            "contains",
            "minContains",
            "maxContains",
            "contentSchema",
        ),
    }
)
"""Keywords of the metaschema that are left to it."""
