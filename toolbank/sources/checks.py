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
    from jsonschema_rs import Draft202012Validator

_METASCHEMA = "https://json-schema.org/draft/2020-12/schema"
_DEEPEST = 800
"""Levels of a schema. The stack of a thread, 512 kB on macOS, is full at about 1,500."""
_MOST_INVALID_NAMES = 100


def explain_unsound(schema: dict[str, Any]) -> str:
    """Say what the metaschema finds wrong with a schema, after its path; "" if it is sound."""
    if is_too_deep(schema, _DEEPEST):
        return f": it is nested over {_DEEPEST} levels deep"
    try:
        if _metaschema().is_valid(schema):
            return ""
    except ValueError:  # a key that is not a string
        pass
    if place := _find_flood(schema):
        return f": {place} lists over {_MOST_INVALID_NAMES} values that are not strings"
    return _first_error(schema)


def is_too_deep(schema: Any, levels: int) -> bool:
    """Whether lists and objects are nested more than so many levels deep."""
    level = [schema]
    for _ in range(levels):
        level = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


@cache
def _metaschema() -> Draft202012Validator:
    """Compile the metaschema.

    `jsonschema_rs.meta` is no substitute: it downloads whatever `$schema` names.
    """
    from jsonschema_rs import Draft202012Validator

    formats: dict[str, Callable[[str], bool]] = {"regex": is_pattern}
    formats |= dict.fromkeys(("uri", "uri-reference"), lambda _: True)
    return Draft202012Validator(
        {"$ref": _METASCHEMA}, formats=formats, validate_formats=True
    )


def _first_error(schema: dict[str, Any]) -> str:
    """What jsonschema finds wrong; its check takes hundreds of times longer."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    validator = Draft202012Validator(
        Draft202012Validator.META_SCHEMA,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    try:
        error = best_match(validator.iter_errors(schema))
    except RecursionError:
        return ": it is unsound, and nested too deep to say where"
    return (
        "" if error is None else f"{error.json_path.removeprefix('$')}: {error.message}"
    )


def _find_flood(schema: Any) -> str:
    """The keyword of a list of names that has too many other values to be checked, or "".

    jsonschema compares each of them with each other.
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
                for names in (one for one in lists if isinstance(one, list)):
                    invalid = sum(not isinstance(name, str) for name in names)
                    if invalid > _MOST_INVALID_NAMES:
                        return keyword
    return ""


@cache
def is_pattern(text: str) -> bool:
    """Check that Python can compile a regular expression."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, OverflowError, RecursionError, MemoryError):
        return False
    return True


_SHOWN = 200
_HOLDERS = ("properties", "$defs")
_EXAMPLE = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def check_tools(
    tools: Iterable[Tool], label: str, check: SchemaCheck | None = None
) -> None:
    """Refuse tools without a name, that JSON in UTF-8 can't hold, or with unsound parameters.

    Parameters are a JSON Schema of an object. Schemas that `check` knows are not checked again.

    Raises:
        InputError: names the source by its label, the tool, and what is wrong with it.
    """
    check = check or SchemaCheck()
    writer = _Writer()
    for tool in tools:
        if not tool.name.strip():
            text = (tool.summary or tool.description or "without description")[:_SHOWN]
            raise InputError(
                f"sources: {label}: a tool has no name ({text}). Give each tool its full name, "
                "such as weather.forecast."
            )
        if trouble := writer.explain(tool):
            raise InputError(
                f"sources: {label}: the tool {tool.name[:_SHOWN]!a} cannot be written as JSON "
                f"({trouble}). Remove values that JSON in UTF-8 does not have, such as NaN or half "
                "a surrogate pair."
            )
        if trouble := check.explain(tool.parameters):
            raise InputError(
                f"sources: {label}: the parameters of {tool.name[:_SHOWN]} are not a JSON Schema "
                f"of an object ({trouble}). Write them like {_EXAMPLE}."
            )


class SchemaCheck:
    """Checks each schema once; tools share schemas as the same objects."""

    def __init__(self) -> None:
        # By identity. The objects are kept so that no other one gets the identity.
        self._sound: dict[int, Any] = {}

    def explain(self, parameters: dict[str, Any]) -> str:
        """Say what is wrong with the schema of parameters, or ""."""
        if parameters.get("type") != "object":
            return 'its type is not "object"'
        properties = parameters.get("properties")
        for name, schema in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(schema, dict):
                return f"properties.{name}: not an object"[:_SHOWN]
        return self.explain_schema(parameters).lstrip(".: ")

    def explain_schema(self, schema: dict[str, Any]) -> str:
        """Say what is wrong with any JSON Schema, after its path, or ""."""
        if id(schema) in self._sound:
            return ""
        parts = {
            key: {k: v for k, v in part.items() if id(v) not in self._sound}
            for key in _HOLDERS
            if isinstance(part := schema.get(key), dict)
        }
        if trouble := explain_unsound({**schema, **parts}):
            return trouble[:_SHOWN]
        for part in (*parts.values(), {"": schema}):
            self._sound |= {id(one): one for one in part.values()}
        return ""


class _Writer:
    """Writes the fields of tools as JSON; objects that tools share are written once."""

    def __init__(self) -> None:
        self._written: dict[int, Any] = {}

    def explain(self, tool: Tool) -> str:
        """Say which field can't be written and why, or ""."""
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
        """The parts of a schema that were not written before."""
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
    """Write a value.

    Raises:
        TypeError, ValueError: JSON in UTF-8 can't hold it.
    """
    if isinstance(value, str) and value.isascii():
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
