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


def check_tools(tools: Iterable[Tool], label: str) -> None:
    """Refuse tools without a name, that JSON in UTF-8 can't hold, or with unsound parameters.

    Parameters are a JSON Schema of an object.

    Raises:
        InputError: names the source by its label, the tool, and what is wrong with it.
    """
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
        if trouble := explain_parameters(tool.parameters):
            raise InputError(
                f"sources: {label}: the parameters of {tool.name[:_SHOWN]} are not a JSON Schema "
                f"of an object ({trouble}). Write them like {_EXAMPLE}."
            )


def explain_parameters(parameters: dict[str, Any]) -> str:
    """Say what is wrong with the schema of parameters, or ""."""
    if parameters.get("type") != "object":
        return 'its type is not "object"'
    properties = parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(schema, dict):
            return f"properties.{name}: not an object"[:_SHOWN]
    return explain_unsound(parameters).lstrip(".: ")[:_SHOWN]


def _explain_unwritable(tool: Tool, written: dict[int, Any]) -> str:
    """Say which field can't be written as JSON in UTF-8 and why, or "".

    `written` has the schemas that tools share as the same objects, by identity: each is written
    once.
    """
    for field in Tool.model_fields:
        value = getattr(tool, field)
        shared: dict[int, Any] = {}
        for key in _HOLDERS if isinstance(value, dict) else ():
            if isinstance(part := value.get(key), dict):
                shared |= {id(one): one for one in part.values()}
                new = {n: {} if id(one) in written else one for n, one in part.items()}
                value = {**value, key: new}
        try:
            text = json.dumps(value, default=_dump, allow_nan=False, ensure_ascii=False)
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            return f"{field}: {error}"[:_SHOWN]
        written |= shared
    return ""


def _dump(value: Any) -> dict[str, Any]:
    if isinstance(value, Record):
        return value.model_dump()
    raise TypeError(f"a {type(value).__name__} is not JSON")
