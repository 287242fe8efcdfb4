"""Nested lists that tell a structure: "name (type) - text" with its members below, as JSON Schema."""

import re
from typing import Any

from selectolax.lexbor import LexborNode

from toolbank.sources.schema.parameters import schema_of
from toolbank.sources.sphinx.pages.items import Item, read_item
from toolbank.sources.sphinx.pages.text import children

# What Boto3 says besides the words of Python.
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
    """The schema of an entry with all that stands below it, and whether it is required.

    A list has one member without a name, a map two: the key and the value. What is nested more
    than 40 levels deep stays text.
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
    """The schema of a type's words: "string", "list", or any that `schema_of` understands."""
    known = _TYPES.get(words.lower())
    if known is not None:
        return dict(known)
    if words.startswith("bytes or "):
        return {"type": "string", "format": words}
    return schema_of(words)


def fill_in(schema: dict[str, Any], syntax: dict[str, Any], depth: int = 0) -> None:
    """Add to a structure what its syntax shows besides: members, and the values of a string."""
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
    """The entries of a list all of which have a type; empty where it is a list of prose."""
    entries: list[Item] = []
    for child in children(node):
        if child.tag == "li":
            entry = read_item(child.iter(include_text=True))
            if not entry.type or " " in entry.name:
                return []
            entries.append(entry)
    return entries


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
    for node in item.nodes:
        if node.tag == "ul":
            return _entries(node)
    return []
