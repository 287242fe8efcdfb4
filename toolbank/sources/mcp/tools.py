"""Tools as MCP servers list them, made into ours."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

from toolbank.bank.function_reader import parse_function
from toolbank.bank.records import McpCall
from toolbank.sources.listed import Listed
from toolbank.system.text import find_control_sign


def read_tools(entries: Sequence[Any], server: str, source: str, found: Listed) -> None:
    """Add the tools that a server lists to those found, as `server/tool`, in its order."""
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.strip():
            found.left_out.add("it has no name", f"{server}/")
        elif sign := find_control_sign(name):
            reason = "its name has a sign in it that no name has"
            found.left_out.add(reason, f"{server}/{sign}")
        elif not _is_writable(entry):
            reason = "what is said of it is no JSON in UTF-8"
            found.left_out.add(reason, f"{server}/{name}")
        else:
            said = {
                key: entry[key]
                for key, kind in (
                    ("title", str),
                    ("description", str),
                    ("annotations", dict),
                )
                if isinstance(entry.get(key), kind)
            }
            if "description" in said:
                # Servers in Python send a function's docstring, indented as it stands.
                said["description"] = inspect.cleandoc(said["description"])
            here = {
                "name": f"{server}/{name}",
                "source": source,
                "call": McpCall(source=server, tool=name),
            }
            tool = parse_function({"name": name, **said}).model_copy(update=here)
            schemas = entry.get("inputSchema"), entry.get("outputSchema")
            found.add(tool, *schemas, tool.name)


def _is_writable(entry: dict[str, Any]) -> bool:
    try:
        json.dumps(entry, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True
