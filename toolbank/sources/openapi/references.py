"""Resolve `$ref`s (JSON pointers, anchors, other files), and collect findings on a description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolbank.bank.bank import SkipCounter
from toolbank.sources.document_parser import explain_other
from toolbank.sources.documents import Document, Documents
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.text import escape, unescape

_LONGEST_CHAIN = 100


class UnresolvedError(Exception):
    """A reference leads to nothing that can be read; the message says why."""


class Node(NamedTuple):
    """A value in a document and the JSON pointer that leads to it."""

    value: Any
    document: Document
    pointer: str

    @property
    def place(self) -> str:
        """File and pointer, for messages."""
        return f"{self.document.address}#{self.pointer}"

    @property
    def key(self) -> tuple[str, str]:
        """Identify the value."""
        return self.document.place, self.pointer

    def child(self, key: str | int) -> Node:
        """Return the node under a key; its value is None if there is none."""
        value = self.value
        if isinstance(value, dict):
            inner = value.get(key)
        else:
            inner = value[key] if isinstance(key, int) and _has(value, key) else None
        if isinstance(key, str) and ("/" in key or "~" in key):
            key = escape(key)
        return Node(inner, self.document, f"{self.pointer}/{key}")

    def get(self, key: str) -> Any:
        """Return the value under a key, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def members(self) -> dict[str, Node]:
        """Return the members of an object; none of another value."""
        if not isinstance(self.value, dict):
            return {}
        return {
            key: Node(value, self.document, f"{self.pointer}/{escape(key)}")
            for key, value in self.value.items()
        }

    def elements(self) -> Iterator[Node]:
        """Iterate over the elements of an array; none of another value."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield Node(value, self.document, f"{self.pointer}/{index}")


_EXAMPLES = 3
_LONGEST = 600
_MOST_LINES = 50


@dataclass
class Findings:
    """What is wrong with a description.

    `problems` name what could not be read, `notes` what is unusual, each with its places (file
    and pointer). `left_out` counts the operations that became no tool, by reason.
    """

    problems: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    left_out: SkipCounter = field(default_factory=SkipCounter)

    def problem(self, what: str, place: str) -> None:
        """Add a place that could not be read."""
        self.problems.setdefault(what, []).append(place)

    def note(self, what: str, place: str) -> None:
        """Add a place that is unusual, and was read."""
        self.notes.setdefault(what, []).append(place)

    def flag(self, node: Node, key: str) -> bool | None:
        """Read true or false under a key, also as a text or a number; None for anything else."""
        value = node.get(key)
        if value is None or isinstance(value, bool):
            return value
        flag = as_flag(value)
        place = node.child(key).place
        if flag is None:
            self.problem(f"`{key}` is not true or false", place)
        else:
            self.note(f"`{key}` is not written as true or false, and corrected", place)
        return flag


def describe(label: str, found: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Write a line for each of the first fifty findings: how often it is, and where first."""
    lines = [_line(label, *one) for one in islice(found.items(), _MOST_LINES)]
    if len(found) > _MOST_LINES:
        lines.append(f"{label}: {len(found) - _MOST_LINES:,} more that are not shown")
    return tuple(lines)


def _line(label: str, what: str, places: list[str]) -> str:
    different = list(Counter(places))
    shown = ", ".join(different[:_EXAMPLES])
    times = f" ({len(places):,} times), first" if len(places) > 1 else ""
    line = f"{label}: {what}{times} at {shown}"
    return "".join(s if s.isprintable() else "?" for s in line)[:_LONGEST]


class References:
    """Follows the references of a description, and collects the findings on it.

    `version` is (2, 0) for Swagger, and (3, 0) or later for OpenAPI.
    """

    def __init__(self, documents: Documents, root: Node) -> None:
        self.documents = documents
        self.root = root
        self.findings = Findings()
        self.version = _read_version(root, self.findings)
        self.is_swagger = self.version < (3, 0)
        self._found: dict[tuple[str, str], Node | str] = {}
        self._anchors: dict[str, dict[str, Node]] = {}
        self.may_pass = False
        """Whether a document could not be read now, so that trying again may help."""

    def resolve(self, document: Document, reference: str, depth: int = 0) -> Node:
        """Resolve a reference in a document; the result may be a reference again.

        Raises:
            UnresolvedError: it leads nowhere, or its document can't be read.
        """
        key = (document.place, reference)
        found = self._found.get(key)
        if found is None:
            try:
                found = self._look_up(document, reference, depth)
            except UnresolvedError as error:
                found = str(error)
            self._found[key] = found
        if isinstance(found, str):
            raise UnresolvedError(found)
        return found

    def follow(self, node: Node) -> Node:
        """Follow a chain of references from a node to its end.

        A description next to a reference replaces that of its target.

        Raises:
            UnresolvedError: the chain leads nowhere, or in a circle.
        """
        said: dict[str, Any] = {}
        for _ in range(_LONGEST_CHAIN):
            reference = reference_of(node.value)
            if reference is None:
                if said and isinstance(node.value, dict):
                    node = Node({**node.value, **said}, node.document, node.pointer)
                return node
            text = node.value.get("description")
            if isinstance(text, str) and text:
                said.setdefault("description", text)
            node = self.resolve(node.document, reference)
        raise UnresolvedError("leads back to itself")

    def follow_or_report(self, node: Node, what: str) -> Node | None:
        """Follow a reference as `follow` does; one that leads nowhere is a problem."""
        try:
            return self.follow(node)
        except UnresolvedError as error:
            problem = f"the `$ref` of {what} {error}; it is skipped"
            self.findings.problem(problem, node.place)
            return None

    def child(self, node: Node, key: str | int) -> Node:
        """Return the value under a key; where that is a reference, its target or None."""
        inner = node.child(key)
        if not isinstance(inner.value, dict) or "$ref" not in inner.value:
            return inner
        with suppress(UnresolvedError):
            return self.follow(inner)
        return inner._replace(value=None)

    def members(self, node: Node) -> dict[str, Node]:
        """Return the members of an object, also of one that it refers to; its own come first."""
        members = node.members()
        if reference_of(node.value) is None:
            return members
        del members["$ref"]
        what = f"a value of `{unescape(node.pointer.rpartition('/')[2])}`"
        target = self.follow_or_report(node, what)
        return {**target.members(), **members} if target else members

    def _look_up(self, document: Document, reference: str, depth: int) -> Node:
        if depth > _LONGEST_CHAIN:
            raise UnresolvedError("leads back to itself")
        place, _, fragment = reference.partition("#")
        root = Node(document.content, document, "")
        if place:
            known = self._identified(document).get(place)
            root = known or self._open(document, place)
        if fragment and not fragment.startswith("/"):
            anchor = self._identified(root.document).get(f"#{unquote(fragment)}")
            if anchor is None:
                raise UnresolvedError("leads nowhere")
            return anchor
        return self._walk(root, fragment, depth)

    def _walk(self, node: Node, fragment: str, depth: int) -> Node:
        for part in fragment.split("/")[1:]:
            key = unescape(unquote(part))
            reference = reference_of(node.value)
            if reference is not None and key not in node.value:
                node = self.resolve(node.document, reference, depth + 1)
            if not _has(node.value, key):
                raise UnresolvedError("leads nowhere")
            node = node.child(int(key) if isinstance(node.value, list) else key)
        return node

    def _open(self, document: Document, place: str) -> Node:
        try:
            found = self.documents.follow(document, place)
        except ToolbankError as error:
            self.may_pass |= not isinstance(error, InputError)
            said = str(error).removeprefix(f"{document.address}: ").rstrip(".")
            raise UnresolvedError(f"can't be followed ({said})") from error
        return Node(found.content, found, "")

    def _identified(self, document: Document) -> dict[str, Node]:
        """The nodes of a document with an `$anchor` ("#name"), `$id` or `$self`."""
        known = self._anchors.get(document.place)
        if known is None:
            known = self._anchors[document.place] = {}
            for name, node in _named(Node(document.content, document, "")):
                known.setdefault(name, node)
        return known


def reference_of(value: Any) -> str | None:
    """The `$ref` of an object that is a reference."""
    reference = value.get("$ref") if isinstance(value, dict) else None
    return reference if isinstance(reference, str) else None


def as_flag(value: Any) -> bool | None:
    """Read true or false from a text such as "true" or YAML's `yes`, or from 1 or 0."""
    if value is None or isinstance(value, float | list | dict):
        return None
    word = str(value).strip().lower()
    return word in _TRUE if word in _TRUE or word in _FALSE else None


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return bool(re.fullmatch("[0-9]{1,9}", str(key))) and int(key) < len(value)
    return isinstance(value, dict) and key in value


_IDENTIFIERS = {"$anchor": "#", "$dynamicAnchor": "#", "$id": "", "$self": ""}


def _named(root: Node) -> Iterator[tuple[str, Node]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, dict):
            for keyword, lead in _IDENTIFIERS.items():
                if isinstance(name := node.value.get(keyword), str):
                    yield f"{lead}{name}", node
            waiting += [node.child(key) for key in reversed(node.value)]
        elif isinstance(node.value, list):
            waiting += reversed([*node.elements()])


def _guess(content: Any) -> str:
    """Say what a document is instead."""
    if not isinstance(content, dict):
        return "it is a list" if isinstance(content, list) else "it is no object"
    if other := explain_other(content):
        return other.removesuffix(".")
    if "paths" in content:
        return "it has `paths`, but no `openapi` with the version"
    return "it has neither `openapi` nor `swagger`"


def _read_version(root: Node, findings: Findings) -> tuple[int, int]:
    """Read the version of a document, major and minor.

    Raises:
        InputError: it has another version, or is not an OpenAPI description.
    """
    content, address = root.value, root.document.address
    versions = "Supported are Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2"
    key = "openapi" if root.get("openapi") is not None else "swagger"
    if not isinstance(content, dict) or key not in content:
        raise InputError(
            f"{address}: it is not an OpenAPI description: {_guess(content)}. {versions}."
        )
    said = str(content[key])
    found = re.match(r"(\d{1,4})(?:\.(\d{1,4}))?", said)
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if version[0] != (3 if key == "openapi" else 2):
        raise InputError(
            f"{address}#/{key}: the version {said[:40]!r} is not supported. {versions}: convert the "
            "file to one of them."
        )
    if version[1] > (2 if key == "openapi" else 0):
        findings.note(f"the version {said[:40]} is new; read as 3.2", root.place)
    return version
