"""What is wrong with a configuration, told with file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from toolbank.config.yaml import KeyPath

_NO_NUMBER = ("float_parsing", "int_parsing")
# Where people paste a key or a password by mistake: the value is not repeated.
_MAY_HOLD_A_KEY = (("api_key_env",), ("base_url",))


def explain(
    error: ValidationError,
    schema: dict[str, Any],
    where: str,
    lines: Mapping[KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    """Say for people what is wrong with a recipe or a crawler, a line a fault.

    `schema` is its JSON Schema, `lines` says where a key stands in the file `where`,
    and `overrides` are the keys that were set on the command line.
    """
    found = error.errors()
    inner = [problem for problem in found if problem["type"] != "too_short"]
    told = [
        _explain(one, place, where, lines, overrides)
        for one, place in _without_unions(inner or found, schema)
    ]
    return "\n".join(dict.fromkeys(told))


@dataclass(frozen=True)
class _Place:
    """Where a fault is: the keys as the user wrote them and the schema that holds the last.

    `union` is the length of the fault's own location up to a choice between kinds of value.
    """

    keys: KeyPath
    holder: dict[str, Any]
    union: int | None = None


def _without_unions(
    problems: Sequence[Any], root: dict[str, Any]
) -> Iterator[tuple[Any, _Place]]:
    """One fault for a value that is of no kind that it may be; pydantic gives one a kind."""
    placed = [(problem, _follow(problem["loc"], root)) for problem in problems]
    for _, same in groupby(placed, lambda item: _choice(*item)):
        group = list(same)
        if group[0][1].union is None:
            yield from group
            continue
        # What is wrong inside one kind shows that it is the one that was meant.
        meant = [
            (problem, place)
            for problem, place in group
            if len(problem["loc"]) > (place.union or 0) + 1
        ]
        if meant:
            yield from meant
        else:
            kinds = dict.fromkeys(_expected(problem) for problem, _ in group)
            told = f"should be {', or '.join(kinds)}"
            yield {**group[0][0], "type": "union", "msg": told}, group[0][1]


def _choice(problem: Any, place: _Place) -> Any:
    """Equal for the faults of one value by its several kinds, and for no others."""
    return id(problem) if place.union is None else tuple(problem["loc"][: place.union])


def _explain(
    problem: Any,
    found: _Place,
    where: str,
    lines: Mapping[KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    location = found.keys
    key = ".".join(str(part) for part in location)
    place = _place(location, where, lines, overrides)
    if problem["type"] == "extra_forbidden":
        valid = sorted(found.holder.get("properties", {}))
        near = difflib.get_close_matches(str(location[-1]), valid, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(valid)}."
        )
        return f"{place}: unknown key {key!r}; {hint}"
    value = problem["input"]
    shown = ""
    if isinstance(value, str | int | float) and location[-1:] not in _MAY_HOLD_A_KEY:
        shown = f" (got {str(value)[:80]!r})"
    about = _describe(found) if problem["type"] in _NO_NUMBER else ""
    named = f"{key}: " if key and place != f"--set {key}" else ""
    return f"{place}: {named}{_message(problem)}{about}{shown}"


def _describe(found: _Place) -> str:
    """What the value means, such as its unit, where the schema says it."""
    properties = found.holder.get("properties", {})
    described = properties.get(found.keys[-1] if found.keys else "", {})
    return f": {described['description']}" if "description" in described else ""


def _message(problem: Any) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "union_tag_not_found":
            return "each entry needs a `type`"
        case "union_tag_invalid":
            return f"no type {context['tag']!r}; there are: {context['expected_tags']}"
        case "model_type" | "model_attributes_type":
            return "should be a mapping of keys; leave it out for the defaults"
        case "dict_type":
            return "should be a mapping of keys"
        case "missing":
            return "is missing"
        case "tuple_type":
            return "should be a list"
        case "too_short":
            return f"should have at least {context['min_length']} entry"
        case "string_pattern_mismatch":
            if problem["loc"][-1] == "base_url":
                return (
                    "should begin with http:// or https://, with no user name, query, fragment "
                    "or blank in it"
                )
            return f"should have the form {context['pattern']}"
        case "float_parsing":
            return "should be a number"
        case "int_parsing":
            return "should be a whole number"
        case _:
            told = str(problem["msg"]).removeprefix("Value error, ")
            return told.removeprefix("Input ")


def _expected(problem: Any) -> str:
    """What a value should be by one of its kinds, to stand after "should be"."""
    context = problem.get("ctx", {})
    match problem["type"]:
        case "int_type" | "int_parsing" | "int_from_float":
            return "a whole number"
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "less_than_equal":
            return f"at most {context['le']}"
        case "literal_error":
            return str(context["expected"])
        case "model_type":
            return "a mapping of keys"
        case "path_type":
            return "the path of a file"
        case _:
            return str(problem["msg"]).removeprefix("Input should be ")


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


def _follow(loc: Sequence[str | int], root: dict[str, Any]) -> _Place:
    """Follow a pydantic location through the JSON Schema; drop the tags of unions."""
    schema: dict[str, Any] = root
    holder = root
    path: list[str | int] = []
    union = None
    for depth, part in enumerate(loc):
        schema = _resolved(schema, root)
        options = _options(schema, root)
        if len(options) > 1:
            union = depth
            schema = next((one for one in options if one.get("title") == part), {})
            continue
        if options:
            schema = options[0]
        mapping = schema.get("discriminator", {}).get("mapping", {})
        if part in mapping:
            schema = _resolved({"$ref": mapping[part]}, root)
            continue
        if isinstance(part, int):
            path.append(part)
            schema = schema.get("items", {})
        elif part in schema.get("properties", {}):
            path.append(part)
            holder, schema = schema, schema["properties"][part]
        elif "properties" in schema:
            path.append(part)
            holder, schema = schema, {}
        elif schema.get("additionalProperties"):
            path.append(part)
            holder, schema = schema, schema["additionalProperties"]
    return _Place(tuple(path), holder, union)


def _options(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds that a value may be of, null left out; none where there is no choice."""
    options = [_resolved(option, root) for option in schema.get("anyOf", ())]
    return [option for option in options if option.get("type") != "null"]


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: dict[str, Any] = root["$defs"][reference.rsplit("/", 1)[-1]]
    return resolved
