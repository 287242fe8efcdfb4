"""Tools as MCP servers list them, made into ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.call import McpCall
from toolbank.bank.records import Tool
from toolbank.sources.tool_check import SchemaCheck
from toolbank.system.text import find_control_sign

_SHOWN = 100


@dataclass
class ReadTools:
    """The tools of a server, by name; what became none, and what was mended, by reason."""

    tools: dict[str, Tool] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    mended: dict[str, list[str]] = field(default_factory=dict)
    repeated: Counter[str] = field(default_factory=Counter)

    def leave_out(self, reason: str, name: str) -> None:
        """Note that one is no tool of ours."""
        self.left_out.setdefault(reason, []).append(name)


def read_tools(
    listed: Sequence[Any], server: str, source: str, check: SchemaCheck
) -> ReadTools:
    """The tools of a server as `server/tool`, in the order that it lists them.

    A schema that is none is mended where that can be. Of two of one name the first counts.
    """
    read = ReadTools()
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.strip():
            read.leave_out("it has no name", "")
        elif sign := find_control_sign(name):
            read.leave_out("its name has a sign in it that no name has", sign)
        elif not _is_writable(entry):
            read.leave_out("what is said of it is no JSON in UTF-8", name)
        elif (known := read.tools.get(f"{server}/{name}")) is not None:
            tool = _make_tool(entry, server, source, check, ReadTools())
            same = tool == known
            read.leave_out(
                "it is listed twice, with the same text"
                if same
                else "it is listed twice, with another text; the first counts",
                name,
            )
        else:
            read.tools[f"{server}/{name}"] = _make_tool(
                entry, server, source, check, read
            )
    return read


def _is_writable(entry: dict[str, Any]) -> bool:
    try:
        json.dumps(entry, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _make_tool(
    entry: dict[str, Any],
    server: str,
    source: str,
    check: SchemaCheck,
    read: ReadTools,
) -> Tool:
    name = entry["name"]
    hints = entry.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    summary, _, rest = _text(entry.get("description")).strip().partition("\n\n")
    parameters, trouble = mend_parameters(entry.get("inputSchema"), check)
    if trouble:
        read.mended.setdefault(trouble, []).append(name)
    output = entry.get("outputSchema")
    if output is not None and not (
        isinstance(output, dict) and not check.explain_schema(output)
    ):
        read.mended.setdefault("an outputSchema that is no JSON Schema", []).append(
            name
        )
        output = None
    return Tool(
        name=f"{server}/{name}",
        title=_text(entry.get("title")) or _text(hints.get("title")),
        summary=" ".join(summary.split()),
        description=rest.strip(),
        parameters=parameters,
        output_schema=output,
        annotations=hints,
        source=source,
        call=McpCall(source=server, tool=name),
    )


def mend_parameters(schema: Any, check: SchemaCheck) -> tuple[dict[str, Any], str]:
    """The parameters of a tool as a JSON Schema of an object, and what was mended, or "".

    A property of which there is prose instead of a schema has that as its description; one whose
    schema is none keeps what is said of it.
    """
    if isinstance(schema, dict) and not check.explain(schema):
        return schema, ""
    if schema is None:
        return _nothing(), "no inputSchema"
    if not isinstance(schema, dict):
        return _nothing(), "an inputSchema that is no object"
    kind, properties = schema.get("type", "object"), schema.get("properties")
    properties = {} if properties is None else properties
    if not isinstance(properties, dict) or (kind != "object" and not properties):
        return _nothing(), "an inputSchema that describes no object"
    mended = {
        **schema,
        "type": "object",
        "properties": {n: _mend_property(p, check) for n, p in properties.items()},
    }
    if not check.explain(mended):
        return mended, "an inputSchema that is no JSON Schema in parts"
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    bare = {
        **_nothing(),
        "properties": mended["properties"],
        "required": [n for n in dict.fromkeys(map(str, names)) if n in properties],
    }
    trouble = "an inputSchema that is no JSON Schema in parts"
    return (_nothing() if check.explain(bare) else bare), trouble


def _mend_property(schema: Any, check: SchemaCheck) -> dict[str, Any]:
    if isinstance(schema, str):
        return {"description": schema}
    if not isinstance(schema, dict):
        return {}
    if not check.explain_schema(schema):
        return schema
    said = {key: schema.get(key) for key in ("title", "description")}
    return {key: text for key, text in said.items() if isinstance(text, str)}


def _nothing() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
