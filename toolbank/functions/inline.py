"""JSON Schemas without references, for those who can't take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEEPEST = 3
_POINTER = "#/$defs/"


def is_circular(schema: dict[str, Any]) -> bool:
    """Whether a schema of `$defs` refers to itself, over however many others."""
    definitions = schema.get("$defs") or {}
    refers = {
        name: {one for one in _references(inner) if one in definitions}
        for name, inner in definitions.items()
    }
    free = {name for name, names in refers.items() if not names}
    while True:
        more = {n for n, names in refers.items() if n not in free and names <= free}
        if not more:
            return len(free) < len(refers)
        free |= more


def inline_references(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A schema with what it refers to in its place, three references deep, without `$defs`.

    What lies deeper is any object; the second value says what that cut, "" for nothing.
    """
    cut: set[str] = set()
    top = {key: value for key, value in schema.items() if key != "$defs"}
    inlined = _inline(top, schema.get("$defs") or {}, 0, cut)
    return (
        inlined,
        f"schemas below three levels: {', '.join(sorted(cut))}" if cut else "",
    )


def _inline(value: Any, definitions: dict[str, Any], depth: int, cut: set[str]) -> Any:
    if isinstance(value, list):
        return [_inline(one, definitions, depth, cut) for one in value]
    if not isinstance(value, dict):
        return value
    rest = {
        key: {name: _inline(o, definitions, depth, cut) for name, o in one.items()}
        if key == "properties" and isinstance(one, dict)
        else one
        if key in ("default", "enum", "const", "examples")
        else _inline(one, definitions, depth, cut)
        for key, one in value.items()
    }
    reference = value.get("$ref")
    if not isinstance(reference, str):
        return rest
    del rest["$ref"]
    name = _name(reference)
    if name not in definitions or depth >= _DEEPEST:
        cut.add(name)
        return {"type": "object", **rest}
    found = _inline(definitions[name], definitions, depth + 1, cut)
    return {**found, **rest} if isinstance(found, dict) else rest


def _references(value: Any) -> Iterator[str]:
    """The names of what a schema refers to."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if isinstance(one.get("$ref"), str):
                yield _name(one["$ref"])
            waiting += one.values()


def _name(reference: str) -> str:
    return reference.removeprefix(_POINTER).replace("~1", "/").replace("~0", "~")
