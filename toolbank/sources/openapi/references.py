"""Where a `$ref` leads: JSON pointers, anchors, other files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolbank.sources.documents.documents import Document, Documents
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
        """What tells it from all other values."""
        return self.document.place, self.pointer

    def child(self, *keys: str | int) -> Node:
        """What stands under these keys, None where nothing does."""
        value, pointer = self.value, self.pointer
        for key in keys:
            value = _get(value, key)
            pointer = f"{pointer}/{escape(key) if isinstance(key, str) else key}"
        return Node(value, self.document, pointer)

    def get(self, *keys: str | int) -> Any:
        """The value under these keys, None where nothing stands."""
        value = self.value
        for key in keys:
            value = _get(value, key)
        return value

    def members(self) -> dict[str, Node]:
        """What stands in an object, by key; nothing of anything else."""
        if not isinstance(self.value, dict):
            return {}
        return {
            key: Node(value, self.document, f"{self.pointer}/{escape(key)}")
            for key, value in self.value.items()
        }

    def elements(self) -> Iterator[Node]:
        """The elements of an array, none of anything else."""
        if isinstance(self.value, list):
            for index in range(len(self.value)):
                yield self.child(index)


class References:
    """Follows references within a document and to others."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._found: dict[tuple[str, str], Node | UnresolvedError] = {}
        self._anchors: dict[str, dict[str, Node]] = {}
        self.may_pass = False
        """Whether a document could not be read for a reason that may pass."""

    def resolve(self, document: Document, reference: str) -> Node:
        """What a reference in a document leads to, which may be a reference again.

        Raises:
            UnresolvedError: it leads nowhere, or its document can't be read.
        """
        return self._resolve(document, reference, 0)

    def follow(self, node: Node) -> Node:
        """The end of a chain of references that begins at a node, itself where it is none.

        A description beside a reference goes before that of what it leads to.

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

    def _resolve(self, document: Document, reference: str, depth: int) -> Node:
        key = (document.place, reference)
        found = self._found.get(key)
        if found is None:
            try:
                found = self._look_up(document, reference, depth)
            except UnresolvedError as error:
                found = error
            self._found[key] = found
        if isinstance(found, UnresolvedError):
            raise found
        return found

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
                node = self._resolve(node.document, reference, depth + 1)
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
        """What a document names by `$anchor` ("#name"), `$id` or `$self`."""
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


def _get(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


def _has(value: Any, key: str) -> bool:
    if isinstance(value, list):
        return key.isascii() and key.isdecimal() and int(key[:9]) < len(value)
    return isinstance(value, dict) and key in value


def _named(root: Node) -> Iterator[tuple[str, Node]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, dict):
            for keyword, form in (
                ("$anchor", "#{}"),
                ("$dynamicAnchor", "#{}"),
                ("$id", "{}"),
                ("$self", "{}"),
            ):
                if isinstance(name := node.value.get(keyword), str):
                    yield form.format(name), node
            waiting += [node.child(key) for key in reversed(node.value)]
        elif isinstance(node.value, list):
            waiting += reversed([*node.elements()])
