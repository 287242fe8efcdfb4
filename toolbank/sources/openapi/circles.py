"""Schemas that say no more than one another, in a circle: no value could ever be checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolbank.sources.openapi.keywords import Schema

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def cut_circles(shared: Mapping[str, Schema], names: Iterable[str]) -> list[str]:
    """Take the references out of schemas that close a circle, and give the schemas' names.

    A circle is one of references that hold for the same value (`allOf`, `anyOf`, ...), not one
    that leads through a property or an element. `shared` are all schemas, by name; `names` those
    that are to be checked.
    """
    cut: list[str] = []
    done: set[str] = set()
    for start in names:
        path: dict[str, Iterator[Schema]] = {}
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in path and name not in done:
                path[name] = _in_place(shared[name])
            while path:
                last = next(reversed(path))
                part = next(path[last], None)
                if part is None:
                    done.add(last)
                    del path[last]
                    continue
                target = part["$ref"].removeprefix("#/$defs/")
                if target in path:
                    del part["$ref"]
                    cut.append(last)
                elif target not in done:
                    waiting.append(target)
                    break
    return cut


def _in_place(schema: Schema) -> Iterator[Schema]:
    """The parts of a schema that hold for the same value and are references."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        for key in _LISTS:
            waiting += part.get(key, ())
        waiting += [part[key] for key in _SINGLE if key in part]
        if "$ref" in part:
            yield part
