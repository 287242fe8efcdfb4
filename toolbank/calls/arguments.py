"""Whether arguments fit a tool's schema, which is data of a pack and may be made to do harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create
from referencing import Registry

from toolbank.bank.records import Tool
from toolbank.calls.errors import CallError

MOST_STEPS = 30_000
"""What is looked at for one call, keywords and what they list: schemas can refer to others ever so
often."""
MOST_TIME = 0.5
"""Seconds of a processor that the check of one call may take: each step can have much to look at."""
_LEFT_OUT = frozenset(
    [
        "pattern",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
_HERE: Registry[Any] = Registry()
"""Of schemas that others may be referred to: none, so that nothing is fetched."""
_steps: ContextVar[Iterator[int]] = ContextVar("steps")
_until: ContextVar[float] = ContextVar("until")


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check a tool's arguments against its schema, by draft 2020-12 whatever it says it is.

    Not looked at are `pattern` and `patternProperties`, with the `additionalProperties` beside
    them: a regular expression can be made to take for ever. Nor are `uniqueItems`,
    `unevaluatedItems` and `unevaluatedProperties`, whose work isn't bounded either. Whose tool it
    is checks them.

    Raises:
        CallError: they don't fit, can't be sent, or the schema is no good.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise CallError("The arguments hold what JSON and UTF-8 can't.") from error
    _steps.set(iter(range(MOST_STEPS)))
    _until.set(time.thread_time() + MOST_TIME)
    try:
        schema = _without_dialects(tool.parameters)
        _Validator(schema, registry=_HERE).validate(dict(arguments))
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        where = f" at {place}" if place else ""
        raise CallError(
            f"The arguments don't fit{where}: {error.message[:500]}"
        ) from error
    # What is wrong with a schema comes out as almost any exception.
    except Exception as error:
        raise CallError(
            f"{tool.name}: its schema can't be checked, so it is not called."
        ) from error


def _without_dialects(schema: Any) -> Any:
    """The schema without `$schema`, by which a part of it would be checked by another validator."""
    if isinstance(schema, Mapping):
        return {
            key: _without_dialects(value)
            for key, value in schema.items()
            if key != "$schema" or not isinstance(value, str)
        }
    if isinstance(schema, list | tuple):
        return [_without_dialects(value) for value in schema]
    return schema


def _bounded(keyword: str, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def look(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        listed = (
            schema.get("properties", ()) if keyword.endswith("Properties") else value
        )
        size = len(listed) if isinstance(listed, Mapping | list) else 0
        if next(islice(_steps.get(), size, None), None) is None:
            raise OverflowError("the schema takes too many steps")
        if time.thread_time() > _until.get():
            raise OverflowError("the schema takes too long")
        if keyword == "additionalProperties" and "patternProperties" in schema:
            return
        yield from check(validator, value, instance, schema) or ()

    return look


_Validator = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={
        keyword: _bounded(keyword, check)
        for keyword, check in Draft202012Validator.VALIDATORS.items()
        if keyword not in _LEFT_OUT
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
