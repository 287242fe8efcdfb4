"""Translate the schemas of a description, each once, and cut circles."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.translation import Schema, Translation
from toolbank.system.text import unescape

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def cut_circles(shared: Mapping[str, Schema], names: Iterable[str]) -> list[str]:
    """Remove the references that close a circle; return the names of the changed schemas.

    A circle consists of references that apply to the same value (`allOf`, `anyOf`, ...), not to a
    property or an element. `shared` are all schemas by name, `names` those to check.
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
    """The parts of a schema that apply to the same value and are references."""
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


_MOST = 100_000_000
"""Characters of the `$defs` of all tools: 4,000 schemas that all refer to each other would be in
each of 4,000 tools."""
_HEAD = "#/$defs/"
_SAID = {"title", "description", "deprecated", "readOnly", "writeOnly"}


class _Names:
    """Names the targets of references, and lists them in `waiting` to be translated."""

    def __init__(self, references: References) -> None:
        self.waiting: deque[tuple[str, Node]] = deque()
        self._references = references
        self._names: dict[tuple[str, str], str] = {}
        self._numbers = Counter[str]()

    def refer(self, reference: str, place: Node) -> str:
        """Name the target of a reference, which is translated later."""
        try:
            node = self._references.resolve(place.document, reference)
            name = self._names.get(node.key)
            if name is None:
                self._references.follow(node)  # which may be a circle of references
                name = self._names[node.key] = self._name(node)
                self.waiting.append((name, node))
        except UnresolvedError as error:
            short = reference if len(reference) <= 120 else f"{reference[:117]}..."
            self._references.findings.problem(
                f"the reference {short} {error}", place.place
            )
            return ""
        return name

    def _name(self, node: Node) -> str:
        last = unescape(node.pointer.rpartition("/")[2])
        file = PurePosixPath(urlsplit(node.document.place).path).stem
        plain = re.sub(r"[^\w.-]+", "_", last or unquote(file), flags=re.ASCII)
        plain = plain.strip("_") or "schema"
        name = plain
        while name in self._numbers:
            self._numbers[plain] += 1
            name = f"{plain}_{self._numbers[plain]}"
        self._numbers[name] = 1
        return name


class Schemas:
    """Translated schemas; a shared schema is the same object in all tools."""

    def __init__(self, references: References) -> None:
        self.references = references
        self._findings = references.findings
        # The names are apart, so that no circle of objects keeps the documents in memory.
        names = _Names(references)
        self._waiting = names.waiting
        self._translation = Translation(names.refer, references)
        self.derive = self._translation.derive
        self._shared: dict[str, Schema] = {}
        self._next: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._unfilled: list[tuple[dict[str, Schema], list[str], int, str]] = []
        self._read: dict[tuple[str, str], Schema] = {}

    def read(self, node: Node) -> Schema:
        """Translate a schema to JSON Schema 2020-12 with references to "#/$defs/NAME"."""
        known = self._read.get(node.key)
        if known is None:
            known = self._read[node.key] = self._translation.translate(node)
            self._share()
        return known

    def shared(self, reference: str) -> Schema:
        """Return the schema that a translated reference leads to."""
        return self._shared[reference.removeprefix(_HEAD)]

    def target(self, schema: Schema, said: Collection[str] = _SAID) -> Schema:
        """Follow a schema that is only a reference, or has keywords of `said` next to it."""
        while "$ref" in schema and schema.keys() - said == {"$ref"}:
            schema = self.shared(schema["$ref"])
        return schema

    def complete(
        self, schema: Schema, parts: Iterable[Schema], place: str, most: int = _MOST
    ) -> Schema:
        """Add the `$defs` of its translated parts to a schema; `fill` fills them.

        They have at most `most` characters. `place` is the place of the operation.
        """
        if names := frozenset[str]().union(*map(self._translation.refs_of, parts)):
            schema["$defs"] = defs = dict[str, Schema]()
            self._unfilled.append((defs, sorted(names), most, place))
        return schema

    def fill(self) -> None:
        """Fill the `$defs` of all completed schemas, sorted by name.

        If they exceed their limit, or all together the limit of a bank, only the nearest schemas
        are kept, and the titles of the next ones.
        """
        if not self._fill(_MOST):
            self._fill(_MOST // len(self._unfilled))

    def _fill(self, share: int) -> bool:
        """Fill all with at most `share` characters each; False if that is too much in sum."""
        left, cut = _MOST, list[tuple[int, str]]()
        for defs, names, bound, place in self._unfilled:
            most = min(bound, share)
            near, size = self._nearest(names, most)
            left -= min(size, most)
            if left < 0:
                return False
            defs.clear()
            defs.update(sorted(near.items()))
            if size > most:
                cut.append((most, place))
        for most, place in cut:
            what = (
                f"the schemas have over {most:,} characters; only the nearest are kept"
            )
            self._findings.note(what, place)
        return True

    def _nearest(self, names: list[str], most: int) -> tuple[dict[str, Schema], int]:
        """The schemas that names lead to, and their characters; past `most` only titles."""
        waiting, size = deque(names), 0
        found: dict[str, Schema] = {}
        while waiting:
            name = waiting.popleft()
            if name in found:
                continue
            shared = self._shared[name]
            size += self._sizes[name]
            if size <= most:
                found[name] = shared
                waiting += self._next[name]
            else:
                found[name] = {"title": shared.get("title", name)}
        return found, size

    def _share(self) -> None:
        """Translate the targets of references, and their targets."""
        new: dict[str, Node] = {}
        while self._waiting:
            name, node = self._waiting.popleft()
            try:
                schema = self._translation.translate_shared(node)
                self._sizes[name] = len(name) + len(json.dumps(schema))
            except RecursionError:
                schema, self._sizes[name] = {}, len(name)
                self._findings.problem("a schema that is nested too deep", node.place)
            self._shared[name] = schema
            self._next[name] = sorted(self._translation.refs_of(schema))
            new[name] = node
        for name in cut_circles(self._shared, new):
            what = "a schema that contains itself, whose reference is removed"
            self._findings.problem(what, new[name].place)
