"""Tools from the fields that datasets of others have for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolbank.bank.records import Tool, ToolKind
from toolbank.system.text import replace_surrogates

_TYPES = ("string", "number", "boolean", "integer", "array", "object")


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
    properties = {}
    for entry in (*_entries(required), *_entries(optional)):
        name, kind = _name(entry), str(entry.get("type", "")).lower()
        properties[name] = {
            "type": kind if kind in _TYPES else "string",
            "description": replace_surrogates(str(entry.get("description") or "")),
        }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    names = [_name(entry) for entry in _entries(required)]
    return {**schema, "required": names} if names else schema


def _name(entry: dict[str, Any]) -> str:
    return replace_surrogates(str(entry["name"]))


def _entries(value: Any) -> Iterable[dict[str, Any]]:
    rows = value if isinstance(value, list) else ()
    return [row for row in rows if isinstance(row, dict) and row.get("name")]
