"""The schemas of a description; those that references lead to once, as `$defs`."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from toolbank.sources.documents.documents import Document
from toolbank.sources.openapi.circles import cut_circles
from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.translation import Schema, Translation

_HEAD = "#/$defs/"
_SAID = {"$ref", "title", "description", "deprecated", "readOnly", "writeOnly"}


class Schemas:
    """Translated schemas, each shared one translated once and the same object in all tools."""

    def __init__(
        self, references: References, findings: Findings, *, siblings: bool
    ) -> None:
        self._references = references
        self._findings = findings
        self._translation = Translation(self._refer, findings, siblings=siblings)
        self.derive = self._translation.derive
        self._names: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._next_numbers: dict[str, int] = {}
        self._waiting: deque[tuple[str, Node]] = deque()
        self._shared: dict[str, Schema] = {}
        self._closures: dict[str, frozenset[str]] = {}
        self._sizes: dict[str, int] = {}
        self._read: dict[tuple[str, str], Schema] = {}

    def read(self, node: Node) -> Schema:
        """A schema in JSON Schema 2020-12; its references lead to "#/$defs/NAME"."""
        known = self._read.get(node.key)
        if known is None:
            known = self._read[node.key] = self._translate(node)
            self._share()
        return known

    def target(self, schema: Schema) -> Schema:
        """What a schema that says no more than a reference leads to; itself where it is none."""
        while "$ref" in schema and not schema.keys() - _SAID:
            schema = self._shared[schema["$ref"].removeprefix(_HEAD)]
        return schema

    def complete(self, schema: Schema, parts: Iterable[Schema]) -> Schema:
        """A schema with the `$defs` that its translated parts need, sorted by name."""
        names = self._closure_of(parts)
        if names:
            schema["$defs"] = {name: self._shared[name] for name in sorted(names)}
        return schema

    def complete_near(self, schema: Schema, parts: Sequence[Schema], most: int) -> bool:
        """Do as `complete` does, with at most so many characters of `$defs`, the nearest first.

        What would be more says nothing but its title. Gives whether any was left out.
        """
        names = self._closure_of(parts)
        if sum(map(self._size, names)) <= most:
            self.complete(schema, parts)
            return False
        waiting = deque(sorted(self._direct(parts)))
        defs: dict[str, Schema] = {}
        while waiting:
            name = waiting.popleft()
            if name in defs:
                continue
            most -= self._size(name)
            shared = self._shared[name]
            if most >= 0:
                defs[name] = shared
                waiting += sorted(self._direct([shared]))
            else:
                defs[name] = {"title": shared.get("title", name)}
        schema["$defs"] = {name: defs[name] for name in sorted(defs)}
        return True

    def _share(self) -> None:
        """Translate what references lead to, and what its references do."""
        new: dict[str, Node] = {}
        while self._waiting:
            name, node = self._waiting.popleft()
            try:
                self._shared[name] = self._translate(node)
            except RecursionError:
                self._shared[name] = {}
                self._findings.problem("a schema that is nested too deep", node.place)
            new[name] = node
        for name in cut_circles(self._shared, new):
            what = "a schema that holds itself, whose reference is left out"
            self._findings.problem(what, new[name].place)

    def _translate(self, node: Node) -> Schema:
        return self._translation.translate(node.value, node.document, node.pointer)

    def _size(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = len(json.dumps(self._shared[name]))
        return size

    def _direct(self, parts: Iterable[Schema]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._translation.refs_of, parts))

    def _closure_of(self, parts: Iterable[Schema]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._closure, self._direct(parts)))

    def _closure(self, name: str) -> frozenset[str]:
        known = self._closures.get(name)
        if known is None:
            found, waiting = {name}, [name]
            while waiting:
                new = self._translation.refs_of(self._shared[waiting.pop()]) - found
                found |= new
                waiting += new
            known = self._closures[name] = frozenset(found)
        return known

    def _refer(self, reference: str, document: Document, pointer: str) -> str:
        """The name of what a reference leads to, which is translated later."""
        try:
            node = self._references.resolve(document, reference)
            name = self._names.get(node.key)
            if name is None:
                self._references.follow(node)  # which may be a circle of references
                name = self._names[node.key] = self._name(node)
                self._waiting.append((name, node))
        except UnresolvedError as error:
            what = f"the reference {_short(reference)} {error}"
            self._findings.problem(what, f"{document.address}#{pointer}")
            return ""
        return name

    def _name(self, node: Node) -> str:
        last = node.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        file = PurePosixPath(urlsplit(node.document.place).path).stem
        plain = re.sub(r"[^\w.-]+", "_", last or unquote(file), flags=re.ASCII)
        plain = plain.strip("_") or "schema"
        number = self._next_numbers.get(plain, 1)
        name = plain if number == 1 else f"{plain}_{number}"
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        self._next_numbers[plain] = number + 1
        self._taken.add(name)
        return name


def _short(reference: str) -> Any:
    return reference if len(reference) <= 120 else f"{reference[:117]}..."
