"""Which tools may be called, and their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolbank.bank.call import HttpCall, McpCall
from toolbank.bank.records import Tool
from toolbank.calls.arguments import check_arguments
from toolbank.calls.config import Target
from toolbank.calls.errors import CallError
from toolbank.calls.http import send
from toolbank.calls.mcp import send_to_mcp
from toolbank.calls.request import prepare_request
from toolbank.system.errors import InputError

_SAFE = ("GET", "HEAD")


class Caller:
    """Passes calls on of tools whose names fit one of `patterns`, to the `targets` of sources.

    What may change something, by any other method than GET and HEAD or by a tool of an MCP server
    that is not said to be read-only, is called with `writes` alone.
    """

    def __init__(
        self, patterns: Sequence[str], targets: Mapping[str, Target], *, writes: bool
    ) -> None:
        self._patterns, self._targets, self._writes = patterns, targets, writes

    def allows(self, tool: Tool) -> bool:
        """Whether a tool's name fits."""
        return any(fnmatchcase(tool.name, pattern) for pattern in self._patterns)

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """What a tool gave, as text.

        Raises:
            CallError: it may not be called, its arguments don't fit, or the call failed.
        """
        if not self.allows(tool):
            raise CallError(f"{tool.name} may not be called through this server.")
        call = tool.call
        if not isinstance(call, HttpCall | McpCall):
            raise CallError(
                f"{tool.name} is nothing that can be called over a network."
            )
        if not self._writes and not _only_reads(tool):
            raise CallError(
                f"{tool.name} may change something, and this server only lets tools read."
            )
        target = find_target(tool, self._targets)
        if target is None:
            raise CallError(f"{tool.name}: nobody has said where its calls go.")
        check_arguments(tool, arguments)
        try:
            if isinstance(call, McpCall):
                return await send_to_mcp(call.tool, arguments, target)
            return await send(prepare_request(target.url, call, arguments), target)
        except InputError as error:
            raise CallError(str(error)) from error


def find_target(tool: Tool, targets: Mapping[str, Target]) -> Target | None:
    """Where a tool's calls go; None where its source is not among them, or is of another kind."""
    call = tool.call
    names = [tool.source]
    if isinstance(call, McpCall):
        names.insert(0, call.source)
    found = next((targets[name] for name in names if name in targets), None)
    if found is None or bool(found.url) != isinstance(call, HttpCall):
        return None
    return found


def _only_reads(tool: Tool) -> bool:
    if isinstance(tool.call, HttpCall):
        return tool.call.method.upper() in _SAFE
    return tool.annotations.get("readOnlyHint") is True
