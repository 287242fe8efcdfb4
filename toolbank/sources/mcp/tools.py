"""Tools as MCP servers list them, made into ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.call import McpCall
from toolbank.bank.records import Tool
from toolbank.sources.schema.mend import mend_parameters
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
