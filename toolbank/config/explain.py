"""Explain what is wrong with a configuration or another file: file, line, key and remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from toolbank.config.base import Schema, kinds_of, resolve
from toolbank.config.yaml import KeyPath
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import naming_extras
from toolbank.system.files import read_json
from toolbank.system.numbers import count

_NO_NUMBER = ("float_parsing", "int_parsing")
# Keys of earlier versions, and what they are called now.
_NEW_NAMES = {"floors": "baselines", "conduct": "crawl"}
# People paste secrets into these by mistake, so errors do not repeat their values.
_MAY_HOLD_A_KEY = (("api_key_env",), ("base_url",), ("spec",), ("url",))


def explain(
    error: ValidationError,
    schema: Schema,
    where: str,
    lines: Mapping[KeyPath, int] = {},
    overrides: Sequence[tuple[str, ...]] = (),
) -> str:
    """Explain what is wrong with a recipe or a crawler, one line per error.

    `schema` is its JSON Schema, `lines` maps keys to lines of the file `where`, and `overrides`
    are the keys that were set on the command line.
    """
    found = error.errors()
    inner = [problem for problem in found if problem["type"] != "too_short"]
    messages = [
        _explain(problem, schema, where, lines, overrides) for problem in inner or found
    ]
    return "\n".join(dict.fromkeys(messages))


@contextmanager
def explaining(
    schema: Schema,
    where: str,
    lines: Mapping[KeyPath, int] = {},
    overrides: Sequence[tuple[str, ...]] = (),
) -> Iterator[None]:
    """Report a ValidationError as `explain` words it.

    Raises:
        InputError: in its place.
    """
    try:
        yield
    except ValidationError as error:
        raise InputError(explain(error, schema, where, lines, overrides)) from error


def first_problem(error: ValidationError) -> str:
    """Explain the first error in data other than a recipe, such as "id: is missing"."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such setting"
    got = "" if problem["loc"][-1:] in _MAY_HOLD_A_KEY else _got(problem)
    message = f"{_message(problem)}{got}"
    return f"{key}: {message}" if key else message


def _explain(
    problem: Any,
    schema: Schema,
    where: str,
    lines: Mapping[KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    location, properties = _follow(problem["loc"], schema)
    key = ".".join(str(part) for part in location)
    place = _place(location, where, lines, overrides)
    if problem["type"] == "extra_forbidden":
        valid = sorted(properties)
        near = difflib.get_close_matches(str(location[-1]), valid, n=1)
        if (new := _NEW_NAMES.get(str(location[-1]))) in valid:
            hint = f"it is called {new!r} now."
        elif near:
            hint = f"did you mean {near[0]!r}?"
        else:
            hint = f"there are: {', '.join(valid)}."
        return f"{place}: unknown key {key!r}; {hint}"
    got = "" if location[-1:] in _MAY_HOLD_A_KEY else _got(problem)
    # Such as the unit of a number.
    about = properties.get(str(location[-1]) if location else "", {}).get("description")
    described = f": {about}" if about and problem["type"] in _NO_NUMBER else ""
    named = f"{key}: " if key and not place.startswith(f"--set {key}") else ""
    return f"{place}: {named}{_message(problem)}{described}{got}"


def _got(problem: Any) -> str:
    value = problem["input"]
    if value is None:
        return " (got nothing)"
    is_plain = isinstance(value, str | int | float)
    return f" (got {str(value)[:80]!r})" if is_plain else ""


_MESSAGES = {
    "union_tag_not_found": "should be a mapping with a `type`",
    "model_attributes_type": "should be a mapping with a `type`",
    "model_type": "should be a mapping of keys; leave it out for the defaults",
    "dict_type": "should be a mapping of keys",
    "missing": "is missing",
    "greater_than_equal": "should be at least {ge}",
    "less_than_equal": "should be at most {le}",
    "string_too_long": "should have at most {max_length} characters",
    "string_pattern_mismatch": "should have the form {pattern}",
    "tuple_type": "should be a list",
    "path_type": "should be the path of a file or folder",
    "float_parsing": "should be a number",
    "int_parsing": "should be a whole number",
}
_BASE_URL = "should begin with http:// or https://, with no user name, query, fragment or blank in it"


def _message(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "union_tag_invalid":
        tag, expected = context["tag"], context["expected_tags"]
        near = difflib.get_close_matches(tag, re.findall(r"'(.+?)'", expected), n=1)
        meant = f"did you mean {near[0]!r}? There" if near else "there"
        return f"no type {tag!r}; {meant} are: {expected}"
    if kind == "too_short":
        entries = count(context["min_length"], "entry", "entries")
        return f"should have at least {entries}"
    if kind == "string_pattern_mismatch" and problem["loc"][-1] == "base_url":
        return _BASE_URL
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(**context)
    return str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")


def _place(
    location: KeyPath,
    where: str,
    lines: Mapping[KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    for override in overrides:
        if override[: len(location)] == tuple(map(str, location)):
            return f"--set {'.'.join(override)}"
    starts = [location[:n] for n in range(len(location), 0, -1)]
    for start in starts:
        if tuple(str(part) for part in start) in overrides:
            return f"--set {'.'.join(map(str, start))}"
    for start in starts:
        if start in lines:
            return f"{where}, line {lines[start]}"
    return where


def _follow(
    loc: Sequence[str | int], root: Schema
) -> tuple[KeyPath, Mapping[str, Any]]:
    """Follow a pydantic location through the JSON Schema.

    Returns the keys as the user wrote them, without the tags of unions, and the properties among
    which the last one is.
    """
    schema = holder = root
    path: list[str | int] = []
    for part in loc:
        schema = resolve(schema, root)
        if kinds := kinds_of(schema, {"type": part}):
            keyed = (kind for kind in kinds if "properties" in resolve(kind, root))
            schema = next(keyed, {})
        elif isinstance(part, int):
            path.append(part)
            schema = schema.get("items", {})
        elif "properties" in schema:
            path.append(part)
            holder, schema = schema, schema["properties"].get(part, {})
        elif schema.get("additionalProperties"):
            path.append(part)
            holder, schema = schema, schema["additionalProperties"]
    return tuple(path), holder.get("properties", {})


T = TypeVar("T")

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def find_adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return a cached TypeAdapter: making one takes longer than reading most files."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_checked(path: Path, kind: type[T]) -> T:
    """Read a JSON file as a value of this type.

    Raises:
        InputError: the file is missing, damaged, or holds something else.
    """
    return check(read_json(path), kind, path)


def check(content: Any, kind: type[T], path: Path) -> T:
    """Check what was read from `path` against a type.

    Raises:
        InputError: it is of another type.
    """
    try:
        return find_adapter(kind).validate_python(content)
    except ValidationError as error:
        raise InputError(
            f"{path}: not what a run writes ({first_problem(error)}). Delete it and run again."
        ) from error


@contextmanager
def reading_content(name: str, kind: str) -> Iterator[None]:
    """Report any exception of a reader as unreadable content.

    Raises:
        InputError: in place of any exception that is neither a ToolbankError nor an OSError.
    """
    try:
        with naming_extras():
            yield
    except (ToolbankError, OSError):
        raise
    except Exception as error:
        why = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(
            f"{name} can't be read ({type(error).__name__}: {why}). "
            f"Is it what {kind} reads?"
        ) from error
