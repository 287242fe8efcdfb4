"""JSON Schemas without references, for those who can't take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from toolbank.system.text import unescape

_DEEPEST = 3
_MOST = 20_000
"""Objects in a schema that is written out; forty properties that refer to as many each, three
levels deep, would be 71 MB."""
_DATA = ("default", "enum", "const", "examples")
_HELD = ("$defs", "definitions")


def is_circular(schema: dict[str, Any]) -> bool:
    """Whether a schema refers to itself, over however many others of its own."""
    refers: dict[str, set[str]] = {}
    waiting = list(_references(schema))
    while waiting:
        pointer = waiting.pop()
        if pointer not in refers:
            refers[pointer] = set(_references(find_target(schema, pointer)))
            waiting += refers[pointer]
    free: set[str] = set()
    while True:
        more = {p for p, others in refers.items() if p not in free and others <= free}
        if not more:
            return len(free) < len(refers)
        free |= more


def inline_references(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A schema with what it refers to in its place, three references deep, without `$defs`.

    What lies deeper or past 20,000 objects, or is not there, is any object; the second value says
    what that cut, "" for nothing.
    """
    cut: set[str] = set()
    left = iter(range(_MOST))
    top = {key: value for key, value in schema.items() if key not in _HELD}
    inlined = _inline(top, schema, 0, cut, left)
    names = ", ".join(sorted(pointer.rpartition("/")[2] for pointer in cut))
    return inlined, (
        f"schemas below three levels, or past {_MOST:,} objects: {names}" if cut else ""
    )


def _inline(
    value: Any, root: dict[str, Any], depth: int, cut: set[str], left: Iterator[int]
) -> Any:
    if isinstance(value, list):
        return [_inline(one, root, depth, cut, left) for one in value]
    if not isinstance(value, dict):
        return value
    is_full = next(left, None) is None
    rest = {
        key: {
            name: _inline(inner, root, depth, cut, left) for name, inner in one.items()
        }
        if key == "properties" and isinstance(one, dict)
        else one
        if key in _DATA
        else _inline(one, root, depth, cut, left)
        for key, one in value.items()
        if key not in _HELD
    }
    pointer = value.get("$ref")
    if not isinstance(pointer, str):
        return rest
    del rest["$ref"]
    target = find_target(root, pointer)
    if not isinstance(target, dict) or depth >= _DEEPEST or is_full:
        cut.add(pointer)
        return {"type": "object", **rest}
    return {**_inline(target, root, depth + 1, cut, left), **rest}


def find_target(root: dict[str, Any], pointer: str) -> Any:
    """What a JSON Pointer (RFC 6901) of a schema leads to; None where that is nothing."""
    found: Any = root
    path, _, names = pointer.partition("#")
    for name in [] if path else names.split("/")[1:]:
        key = unescape(unquote(name))
        found = found.get(key) if isinstance(found, dict) else None
    return None if path else found


def _references(value: Any) -> Iterator[str]:
    """The pointers of what a schema refers to."""
    waiting = [(value, True)]
    while waiting:
        one, is_schema = waiting.pop()
        if isinstance(one, list):
            waiting += [(inner, True) for inner in one]
        elif isinstance(one, dict):
            # A property may be called as a keyword is.
            if is_schema and isinstance(one.get("$ref"), str):
                yield one["$ref"]
            waiting += [
                (inner, key not in ("properties", *_HELD))
                for key, inner in one.items()
                if not (is_schema and key in _DATA)
            ]
