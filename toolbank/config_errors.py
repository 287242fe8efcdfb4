"""What is wrong with a configuration, told with file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from toolbank.config_yaml import KeyPath

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
    told = [_explain(one, schema, where, lines, overrides) for one in inner or found]
    return "\n".join(dict.fromkeys(told))


def _explain(
    problem: Any,
    root: dict[str, Any],
    where: str,
    lines: Mapping[KeyPath, int],
    overrides: Sequence[tuple[str, ...]],
) -> str:
    location, schema = _follow(problem["loc"], root)
    key = ".".join(str(part) for part in location)
    place = _place(location, where, lines, overrides)
    if problem["type"] == "extra_forbidden":
        valid = sorted(schema.get("properties", {}))
        near = difflib.get_close_matches(str(location[-1]), valid, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(valid)}."
        )
        return f"{place}: unknown key {key!r}; {hint}"
    value = problem["input"]
    shown = ""
    if isinstance(value, str | int | float) and location[-1:] not in _MAY_HOLD_A_KEY:
        shown = f" (got {str(value)[:80]!r})"
    return f"{place}: {key + ': ' if key else ''}{_message(problem)}{shown}"


def _message(problem: Any) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "union_tag_not_found":
            return "each entry needs a `type`"
        case "union_tag_invalid":
            return f"no type {context['tag']!r}; there are: {context['expected_tags']}"
        case "model_type" | "model_attributes_type":
            return "should be a mapping of keys; leave it out for the defaults"
        case "tuple_type":
            return "should be a list"
        case "too_short":
            return f"should have at least {context['min_length']} entry"
        case "string_pattern_mismatch":
            return f"should have the form {context['pattern']}"
        case _:
            return str(problem["msg"]).removeprefix("Value error, ")


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
    loc: Sequence[str | int], root: dict[str, Any]
) -> tuple[KeyPath, dict[str, Any]]:
    """Follow a pydantic location through the JSON Schema; drop the tags of unions.

    Gives the keys as the user wrote them and the schema that holds the last one.
    """
    schema: dict[str, Any] = root
    holder = root
    path: list[str | int] = []
    for part in loc:
        schema = _resolved(schema, root)
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
    return tuple(path), holder


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: dict[str, Any] = root["$defs"][reference.rsplit("/", 1)[-1]]
    return resolved
