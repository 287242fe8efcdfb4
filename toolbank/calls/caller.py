"""Which tools may be called, and their calls."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolbank.bank.records import HttpCall, McpCall, Tool
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

    A tool of an MCP server has to fit by what the server calls it, too, alone or as SOURCE/TOOL:
    which of its tools a name stands for is only said by a pack. What may change something, by any
    other method than GET and HEAD or by a tool of an MCP server that its target doesn't say to be
    read-only, is called with `writes` alone.

    A target is found by the label of a tool's source, or by the name of an MCP server. Where tools of
    several servers share that, it is found by the label and the server, as `keys` gives it.
    """

    def __init__(
        self, patterns: Sequence[str], targets: Mapping[str, Target], *, writes: bool
    ) -> None:
        self._patterns, self.targets, self._writes = patterns, targets, writes
        self._pairs: dict[str, set[tuple[str, str]]] = {}
        # The servers of each label, and the labels of each server.
        self._others: dict[str, set[str]] = {}

    def learn(self, finder: str, tools: Iterable[Tool]) -> None:
        """Note which labels and servers the tools of a finder have, in place of those before."""
        self._pairs[finder] = {
            (tool.sources[0], server)
            for tool in tools
            if (server := _find_server(tool)) is not None
        }
        others: dict[str, set[str]] = defaultdict(set)
        for label, server in set[tuple[str, str]]().union(*self._pairs.values()):
            others[label].add(server)
            others[server].add(label)
        self._others = dict(others)

    def keys(self, tool: Tool) -> tuple[str, ...]:
        """What a target of a tool may be called; the first counts, the second is the plainest."""
        server, label = _find_server(tool), tool.sources[0]
        if server is None:
            return ()
        found = [f"{label} {server}"]
        if isinstance(tool.call, McpCall) and self._others.get(server, {label}) == {
            label
        }:
            found.append(server)
        if self._others.get(label, {server}) == {server}:
            found += dict.fromkeys((label, tool.source))
        return tuple(found)

    def find_target(self, tool: Tool) -> Target | None:
        """Where a tool's calls go; None where no target is its source's, or is of another kind."""
        call, keys = tool.call, self.keys(tool)
        found = [self.targets[key] for key in keys if key in self.targets]
        own = self.targets.get(tool.sources[0])
        if isinstance(call, HttpCall) and own and _is_server(own.url, call.server):
            found.append(own)
        if not found or bool(found[0].url) != isinstance(call, HttpCall):
            return None
        return found[0]

    def allows(self, tool: Tool) -> bool:
        """Whether a tool's name fits, and what is called by it."""
        call = tool.call
        if isinstance(call, McpCall) and not (
            self._fits(call.tool) or self._fits(f"{call.source}/{call.tool}")
        ):
            return False
        return self._fits(tool.name)

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """What a tool gave, as text.

        Raises:
            CallError: it may not be called, its arguments don't fit, or the call failed.
        """
        call, target = self.find(tool)
        # On a thread, so that others are answered meanwhile.
        await asyncio.to_thread(check_arguments, tool, arguments)
        try:
            if isinstance(call, McpCall):
                return await send_to_mcp(call.tool, arguments, target)
            return await send(prepare_request(target.url, call, arguments), target)
        except InputError as error:
            raise CallError(str(error)) from error

    def find(self, tool: Tool) -> tuple[HttpCall | McpCall, Target]:
        """What is called by a tool, and where that goes.

        Raises:
            CallError: it may not be called.
        """
        if not self.allows(tool):
            raise CallError(f"{tool.name} may not be called through this server.")
        call = tool.call
        if not isinstance(call, HttpCall | McpCall):
            raise CallError(
                f"{tool.name} is nothing that can be called over a network."
            )
        target = self.find_target(tool)
        if target is None:
            raise CallError(f"{tool.name}: nobody has said where its calls go.")
        if not self._writes and not _only_reads(call, target):
            raise CallError(
                f"{tool.name} may change something, and this server only lets tools read."
            )
        return call, target

    def lets(self, tool: Tool) -> bool:
        """Whether a tool may be called."""
        try:
            self.find(tool)
        except CallError:
            return False
        return True

    def _fits(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)


def _find_server(tool: Tool) -> str | None:
    """The server that a tool is of, as its source says; None where none is called."""
    if isinstance(tool.call, McpCall):
        return tool.call.source
    return tool.call.server or "/" if isinstance(tool.call, HttpCall) else None


def _is_server(url: str, server: str) -> bool:
    return bool(server) and url.rstrip("/") == server.rstrip("/")


def _only_reads(call: HttpCall | McpCall, target: Target) -> bool:
    if isinstance(call, HttpCall):
        return call.method.upper() in _SAFE
    return any(fnmatchcase(call.tool, pattern) for pattern in target.read_only)
