"""Read the entries of field lists and the structures nested in them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.sources.sphinx.pages.text import (
    children,
    inline,
    is_block,
    is_dropped,
    line,
)
from toolbank.sources.typetext import schema_of

_DASH = re.compile(r"\s*(?:(?:[\u2013\u2014:]|--?(?=\s|$))\s*)+")
_BOLD = frozenset({"strong", "b"})
_TEXT = "-text"


@dataclass(frozen=True)
class Item:
    """One entry: `name` in bold, `type` in parentheses, and text.

    `label` is the text before the dash of an entry without name and type. `text` is the rest of
    the first paragraph; `nodes` follow that paragraph.
    """

    name: str
    type: str
    label: str
    text: str
    nodes: tuple[LexborNode, ...] = ()

    def described(self, left_out: LexborNode | None = None) -> str:
        """Return the entry's text as one line, without one of its elements."""
        hidden = None if left_out is None else left_out.mem_id
        parts = [self.text]
        for node in self.nodes:
            if node.tag == _TEXT:
                parts.append(" ".join(node.text(deep=False).split()))
            elif node.mem_id != hidden and not is_dropped(node):
                parts.append(line(node))
        return " ".join(part for part in parts if part)


def read_item(nodes: Iterable[LexborNode]) -> Item:
    """Read the content of an `li` or `dd`, its text included."""
    content = list(nodes)
    start = 0
    while start < len(content) and _is_empty(content[start]):
        start += 1
    if start < len(content) and content[start].tag == "p":
        head = list(content[start].iter(include_text=True))
        end = start + 1
    else:
        end = start
        while end < len(content) and not is_block(content[end]):
            end += 1
        head = content[start:end]
    name, head = _name(head)
    kind, label, text = _parts(head, bool(name))
    return Item(name, kind, label, text, tuple(content[end:]))


def read_items(node: LexborNode) -> Iterator[Item]:
    """Yield the entries of a list."""
    for child in children(node):
        if child.tag == "li":
            yield read_item(child.iter(include_text=True))


def _is_empty(node: LexborNode) -> bool:
    if node.tag == _TEXT:
        return not node.text(deep=False).strip()
    return node.tag == "p" and not node.text(deep=True).strip()


def _name(head: list[LexborNode]) -> tuple[str, list[LexborNode]]:
    """The bold text at the start of an entry, and the nodes after it."""
    end = 0
    for position, node in enumerate(head):
        if node.tag in _BOLD:
            end = position + 1
        elif node.text(deep=node.tag != _TEXT).strip(" \n,\u00b6#"):
            break
    return inline(head[:end]), head[end:]


def _parts(head: list[LexborNode], is_named: bool) -> tuple[str, str, str]:
    """Type, label and text of what follows the name."""
    words = inline(head)
    if words.startswith("("):
        end = _closing(words)
        dash = _DASH.match(words, end)
        if end and (is_named or dash):
            text = words[dash.end() if dash else end :]
            return words[1 : end - 1].strip(), "", text.strip()
    if is_named:
        dash = _DASH.match(words)
        return "", "", words[dash.end() if dash else 0 :]
    lead: list[LexborNode] = []
    for node in head:
        if node.tag == _TEXT and node.text(deep=False).strip():
            break
        lead.append(node)
    label = inline(lead)
    dash = _DASH.match(words, len(label))
    return ("", label, words[dash.end() :]) if label and dash else ("", "", words)


def _closing(words: str) -> int:
    """The position after the parenthesis that closes the first one, or 0."""
    depth = 0
    for position, character in enumerate(words):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return position + 1
    return 0


# Types of Boto3 that are not Python's.
_TYPES: dict[str, dict[str, Any]] = {
    "character": {"type": "string"},
    "long": {"type": "integer"},
    "double": {"type": "number"},
    "datetime": {"type": "string", "format": "date-time"},
    "timestamp": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "bytes"},
}
_REQUIRED = re.compile(r"\s*\[REQUIRED\]\s*")
_MAX_DEPTH = 40


def read_structure(item: Item, depth: int = 0) -> tuple[dict[str, Any], bool]:
    """Return the schema of an entry with nested entries, and whether it is required.

    A list has one member without a name, a map has two: key and value. Entries nested more than 40
    levels deep stay text.
    """
    schema = type_schema(item.type)
    members = None
    if depth < _MAX_DEPTH and schema.get("type") not in ("string", "integer"):
        for node in item.nodes:
            if node.tag == "ul" and (entries := _entries(node)):
                members = node
                _add_members(schema, entries, depth + 1)
                break
    words = item.described(members)
    text = _REQUIRED.sub(" ", words, count=1).strip()
    if text:
        schema["description"] = text
    return schema, text != words.strip()


def type_schema(words: str) -> dict[str, Any]:
    """Return the schema of a type such as "string", "list" or any that `schema_of` reads."""
    known = _TYPES.get(words.lower())
    if known is not None:
        return dict(known)
    if words.startswith("bytes or "):
        return {"type": "string", "format": words}
    return schema_of(words)


def fill_in(schema: dict[str, Any], syntax: dict[str, Any], depth: int = 0) -> None:
    """Add members and enums of a syntax to a structure."""
    if depth > _MAX_DEPTH:
        return
    if schema.get("type") == "string" and "enum" in syntax:
        schema.setdefault("enum", syntax["enum"])
    if "additionalProperties" in schema and "propertyNames" in syntax:
        names = schema.setdefault("propertyNames", {"type": "string"})
        fill_in(names, syntax["propertyNames"], depth + 1)
    for key in ("items", "additionalProperties"):
        if key in schema and key in syntax:
            fill_in(schema[key], syntax[key], depth + 1)
    if "properties" not in schema and schema.get("type") == syntax.get("type"):
        for key, value in syntax.items():
            schema.setdefault(key, value)
    members = schema.get("properties", {})
    for name, member in syntax.get("properties", {}).items():
        fill_in(members.setdefault(name, member), member, depth + 1)


def _entries(node: LexborNode) -> list[Item]:
    """The entries of a list if all have a type, else nothing: it is prose."""
    entries = list(read_items(node))
    is_prose = any(not one.type or " " in one.name for one in entries)
    return [] if is_prose else entries


def _add_members(schema: dict[str, Any], entries: list[Item], depth: int) -> None:
    first = entries[0]
    if first.name:
        properties: dict[str, Any] = {}
        required: list[str] = []
        for entry in entries:
            properties[entry.name], is_required = read_structure(entry, depth)
            if is_required:
                required.append(entry.name)
        target = schema
        if schema.get("type") == "array":
            target = schema["items"] = {"type": "object"}
        target["properties"] = properties
        if required:
            target["required"] = required
    elif schema.get("type") == "array":
        schema["items"] = read_structure(first, depth)[0]
    else:
        value = entries[1:] or _below(first)
        if value:
            key = Item("", first.type, "", first.text)
            names = read_structure(key, depth)[0]
            if names != {"type": "string"}:
                schema["propertyNames"] = names
            schema["additionalProperties"] = read_structure(value[0], depth)[0]


def _below(item: Item) -> list[Item]:
    """The entries of the list below an entry."""
    return next((_entries(node) for node in item.nodes if node.tag == "ul"), [])
