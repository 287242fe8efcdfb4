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
_DEEPEST_LOCATED = 200
"""Levels of a schema whose error is located, which takes more stack than the check."""


def explain_unsound(schema: dict[str, Any]) -> str:
    """Say what the metaschema finds wrong with a schema, after its path; "" if it is sound."""
    if is_too_deep(schema, _DEEPEST):
        return f": it is nested over {_DEEPEST} levels deep"
    try:
        if _metaschema().is_valid(schema):
            return ""
        if is_too_deep(schema, _DEEPEST_LOCATED):
            return ": it is unsound, and nested too deep to say where"
        error = next(_metaschema().iter_errors(schema))
    except ValueError as not_json:  # a key that is not a string
        return f": {not_json}"
    return "".join(f".{part}" for part in error.instance_path) + f": {error.message}"


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
    written: dict[int, Any] = {}
    for tool in tools:
        if not tool.name.strip():
            text = (tool.summary or tool.description or "without description")[:_SHOWN]
            raise InputError(
                f"sources: {label}: a tool has no name ({text}). Give each tool its full name, "
                "such as weather.forecast."
            )
        if trouble := _explain_unwritable(tool, written):
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
        if trouble := explain_unsound(_without_known(schema, self._sound)):
            return trouble[:_SHOWN]
        self._sound |= _parts(schema) | {id(schema): schema}
        return ""


def _explain_unwritable(tool: Tool, written: dict[int, Any]) -> str:
    """Say which field can't be written as JSON in UTF-8 and why, or ""."""
    for field in Tool.model_fields:
        value = getattr(tool, field)
        new = _without_known(value, written) if isinstance(value, dict) else value
        try:
            text = json.dumps(new, default=_dump, allow_nan=False, ensure_ascii=False)
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            return f"{field}: {error}"[:_SHOWN]
        written |= _parts(value) if isinstance(value, dict) else {}
    return ""


def _dump(value: Any) -> dict[str, Any]:
    if isinstance(value, Record):
        return value.model_dump()
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _parts(schema: dict[str, Any]) -> dict[int, Any]:
    """The schemas that several tools may share as the same objects, by identity."""
    holders = (part for key in _HOLDERS if isinstance(part := schema.get(key), dict))
    return {id(one): one for part in holders for one in part.values()}


def _without_known(schema: dict[str, Any], known: dict[int, Any]) -> dict[str, Any]:
    """The schema with an empty one in place of each part that is known."""
    return schema | {
        key: {name: {} if id(one) in known else one for name, one in part.items()}
        for key in _HOLDERS
        if isinstance(part := schema.get(key), dict)
    }
