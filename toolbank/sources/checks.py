"""Check the tools of every source and their JSON Schemas."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from toolbank.bank.records import Record, Tool
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


_MOST_NO_TEXTS = 100
TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
"""The types of JSON Schema."""


def explain_unsound(schema: dict[str, Any]) -> str:
    """What the metaschema says against a schema, after the path to it; "" where it is sound."""
    from jsonschema.exceptions import best_match

    if _is_surely_sound(schema):
        return ""
    if place := _find_flood(schema):
        return f": {place} lists over {_MOST_NO_TEXTS} things that are no texts"
    error = best_match(_validator().iter_errors(schema))
    return (
        "" if error is None else f"{error.json_path.removeprefix('$')}: {error.message}"
    )


def _find_flood(schema: Any) -> str:
    """The keyword of a list of names that isn't one, and so long that it can't be checked, or "".

    The metaschema has each of its items compared with each other.
    """
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            for keyword in ("type", "required", "dependentRequired", "dependencies"):
                value = part.get(keyword)
                lists = value.values() if isinstance(value, dict) else [value]
                if any(isinstance(names, list) and _is_flood(names) for names in lists):
                    return keyword
    return ""


def _is_flood(names: list[Any]) -> bool:
    return sum(not isinstance(name, str) for name in names) > _MOST_NO_TEXTS


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
            if check is not None:
                if not check(value):
                    return False
                continue
            add = _SCHEMA_HOLDERS.get(key)
            if add is None:
                if key in _RARE:
                    return False
            elif not add(value, waiting):
                return False
    return True


def is_text(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    """Whether a value is a number of JSON; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def is_pattern(value: Any) -> bool:
    """Whether a value is a regular expression that Python can read."""
    return isinstance(value, str) and _compiles(value)


@cache
def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # of what Python may read otherwise
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _is_anything(_: Any) -> bool:
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_step(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _are_names(value) and bool(value) and TYPES.issuperset(value)


def _are_names(value: Any) -> bool:
    return are_texts(value) and len(set(value)) == len(value)


def _are_named_names(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_names, value.values()))


COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "minContains", "maxContains"),
)
VALUES: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    **dict.fromkeys(("title", "description", "format"), is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), is_text),
    **dict.fromkeys(("default", "const"), _is_anything),
    **dict.fromkeys(("enum", "examples"), _is_list),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _is_flag),
    **dict.fromkeys(("minimum", "maximum"), is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), is_number),
    **dict.fromkeys(COUNTS, _is_count),
    "multipleOf": _is_step,
    "required": _are_names,
    "dependentRequired": _are_named_names,
    "pattern": is_pattern,
}
"""By keyword that holds no schema, whether a value is surely one that it can have."""

HOLD_ONE = (
    *("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
    *("not", "if", "then", "else", "contains", "propertyNames", "contentSchema"),
)
HOLD_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
HOLD_NAMED = ("properties", "patternProperties", "dependentSchemas")
"""Keywords that hold a schema, a list of them, or some by name."""


# Each says whether a keyword's value is surely sound once the schemas that it adds are.
def _add(value: Any, waiting: list[Any]) -> bool:
    waiting.append(value)
    return True


def _add_list(value: Any, waiting: list[Any]) -> bool:
    if not isinstance(value, list) or not value:
        return False
    waiting += value
    return True


def _add_named(value: Any, waiting: list[Any]) -> bool:
    if not isinstance(value, dict):
        return False
    waiting += value.values()
    return True


def _add_by_pattern(value: Any, waiting: list[Any]) -> bool:
    return _add_named(value, waiting) and all(map(_compiles, value))


_SCHEMA_HOLDERS: dict[str, Callable[[Any, list[Any]], bool]] = {
    **dict.fromkeys(HOLD_ONE, _add),
    **dict.fromkeys(HOLD_LIST, _add_list),
    **dict.fromkeys(HOLD_NAMED, _add_named),
    "patternProperties": _add_by_pattern,
    "$defs": _add_named,
}
_CHECKS = {**VALUES, "$ref": is_text, "$comment": is_text}
_RARE = frozenset(
    {
        *("$id", "$schema", "$anchor", "$vocabulary", "$dynamicRef", "$dynamicAnchor"),
        *("$recursiveRef", "$recursiveAnchor", "definitions", "dependencies"),
    }
)
"""Keywords of the metaschema that are left to it."""


_SHOWN = 200
_HOLDERS = ("properties", "$defs")
_EXAMPLE = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def check_tools(
    tools: Iterable[Tool], label: str, check: SchemaCheck | None = None
) -> None:
    """Refuse a tool without a name, or that no file holds, or whose parameters describe no object.

    All that is said of a tool is JSON that can be written as UTF-8; its parameters are a JSON
    Schema of an object. Those that `check` has found sound are not looked at again.

    Raises:
        InputError: names the source by its label, the tool, and what is wrong with it.
    """
    check = check or SchemaCheck()
    writer = _Writer()
    for tool in tools:
        if not tool.name.strip():
            said = (tool.summary or tool.description or "nothing is said of it")[
                :_SHOWN
            ]
            raise InputError(
                f"sources: {label}: a tool has no name ({said}). Give each its full name, such as "
                "weather.forecast."
            )
        if trouble := writer.explain(tool):
            raise InputError(
                f"sources: {label}: what is said of {tool.name[:_SHOWN]!a} can't be written as "
                f"JSON ({trouble}). Leave out what JSON in UTF-8 doesn't have, such as NaN or half "
                "a surrogate pair."
            )
        if trouble := check.explain(tool.parameters):
            raise InputError(
                f"sources: {label}: the parameters of {tool.name[:_SHOWN]} are no JSON Schema of "
                f"an object ({trouble}). They should look like {_EXAMPLE}."
            )


class SchemaCheck:
    """Holds each schema against the metaschema once: tools share them as the same objects."""

    def __init__(self) -> None:
        # By identity; what was seen is kept here so that no other object gets it.
        self._sound: dict[int, dict[str, Any]] = {}
        self._objects: dict[int, dict[str, Any]] = {}

    def explain(self, parameters: dict[str, Any]) -> str:
        """What is wrong with a schema of parameters, or ""."""
        if id(parameters) in self._objects:
            return ""
        if parameters.get("type") != "object":
            return 'its type is not "object"'
        properties, shared = (parameters.get(key, {}) for key in _HOLDERS)
        if not isinstance(properties, dict):
            return "properties: not an object"
        rest = {key: parameters[key] for key in parameters if key != "properties"}
        new: dict[str, Any] = {}
        if isinstance(shared, dict):
            new = {k: v for k, v in shared.items() if id(v) not in self._sound}
            rest["$defs"] = new
        if trouble := explain_unsound(rest):
            return trouble[:_SHOWN].lstrip(".: ")
        for name, schema in properties.items():
            if not isinstance(schema, dict):
                return f"properties.{name}: not an object"[:_SHOWN]
            if trouble := self.explain_schema(schema):
                return f"properties.{name}{trouble}"[:_SHOWN]
        self._sound |= {id(schema): schema for schema in new.values()}
        self._objects[id(parameters)] = parameters
        return ""

    def explain_schema(self, schema: dict[str, Any]) -> str:
        """What is wrong with any JSON Schema, or ""; begins with the place."""
        if id(schema) in self._sound:
            return ""
        trouble = explain_unsound(schema)[:_SHOWN]
        if not trouble:
            self._sound[id(schema)] = schema
        return trouble


class _Writer:
    """Writes all that is said of tools; once what they share as the same object."""

    def __init__(self) -> None:
        self._written: dict[int, Any] = {}

    def explain(self, tool: Tool) -> str:
        """Why no file of a bank or an export could hold it, or ""; begins with the field."""
        for field in Tool.model_fields:
            value = getattr(tool, field)
            try:
                if isinstance(value, dict):
                    _write(self._new_parts(value))
                elif value:
                    _write(_plain(value))
            except (TypeError, ValueError, RecursionError) as error:
                return f"{field}: {error}"[:_SHOWN]
        return ""

    def _new_parts(self, value: dict[str, Any]) -> list[Any]:
        """What of a value was not written yet; of those that hold others, each by itself."""
        parts: list[Any] = []
        for key, part in value.items():
            if not isinstance(part, dict) or key not in _HOLDERS:
                parts.append({key: part})
                continue
            parts.append([*part])
            for inner in part.values():
                if id(inner) not in self._written:
                    self._written[id(inner)] = inner
                    parts.append(inner)
        return parts


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.model_dump()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _write(value: Any) -> None:
    """Write a value as a file would hold it.

    Raises:
        TypeError, ValueError: JSON in UTF-8 can't.
    """
    if isinstance(value, str) and value.isascii():
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
