"""Tools from the fields that datasets of others have for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolbank.bank.records import Tool, ToolKind

_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "integer": "integer",
    "array": "array",
    "object": "object",
}


def describe_tool(
    name: str, description: str, kind: ToolKind = "function", **fields: Any
) -> Tool:
    """A tool whose first paragraph is its summary, and all that follows its description."""
    summary, _, rest = description.strip().partition("\n\n")
    return Tool(
        name=name,
        kind=kind,
        summary=" ".join(summary.split()),
        description=rest.strip(),
        **fields,
    )


def make_parameters(required: Any, optional: Any) -> dict[str, Any]:
    """A JSON Schema from two lists of {name, type, description}; other entries are passed over."""
    properties = {
        name: {
            "type": _TYPES.get(str(entry.get("type", "")).lower(), "string"),
            "description": clean(str(entry.get("description") or "")),
        }
        for entry in (*_entries(required), *_entries(optional))
        if (name := clean(str(entry["name"])))
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    names = [clean(str(entry["name"])) for entry in _entries(required)]
    return {**schema, "required": names} if names else schema


def clean(text: str) -> str:
    """The text with a "?" for each half of a character, which no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def _entries(value: Any) -> Iterable[dict[str, Any]]:
    rows = value if isinstance(value, list) else ()
    return [row for row in rows if isinstance(row, dict) and row.get("name")]
