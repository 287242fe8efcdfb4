"""Decide which tools may be called, check their arguments, and report this to the operator."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create
from mcp.types import CallToolResult, TextContent
from referencing import Registry

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import prepare_request, send
from toolbank.search.calls.mcp import McpSessions
from toolbank.system.errors import InputError
from toolbank.system.net import is_private

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

MOST_STEPS = 30_000
"""The maximum number of schema keywords, and entries of them, that one check may visit."""
MOST_TIME = 0.5
"""The maximum CPU time of one check, in seconds, since a single step can be expensive."""
_UNCHECKED = frozenset(
    [
        "pattern",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
_NO_SCHEMAS: Registry[Any] = Registry()
"""An empty registry of referenced schemas, so that nothing is fetched."""
_steps: ContextVar[Iterator[int]] = ContextVar("steps")
_until: ContextVar[float] = ContextVar("until")


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check a tool's arguments against its schema, by draft 2020-12 whatever dialect it names.

    The work of some keywords is unbounded, so they are left to the tool's own server: `pattern` and
    `patternProperties` (with `additionalProperties` next to it), where a regular expression may
    never end, `uniqueItems`, `unevaluatedItems` and `unevaluatedProperties`.

    Raises:
        CallError: they don't fit, can't be sent, or the schema is invalid or too expensive.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise CallError("The arguments cannot be written as JSON in UTF-8.") from error
    _steps.set(iter(range(MOST_STEPS)))
    _until.set(time.thread_time() + MOST_TIME)
    try:
        schema = _without_dialects(tool.parameters)
        _Validator(schema, registry=_NO_SCHEMAS).validate(dict(arguments))
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        where = f" at {place}" if place else ""
        raise CallError(
            f"The arguments do not fit{where}: {error.message[:500]}"
        ) from error
    # An invalid schema may raise almost any exception.
    except Exception as error:
        raise CallError(
            f"{tool.name}: its schema cannot be checked, so it is not called."
        ) from error


def _without_dialects(schema: Any) -> Any:
    """Remove `$schema`, which would select another validator for a part of the schema."""
    if isinstance(schema, Mapping):
        return {
            key: _without_dialects(value)
            for key, value in schema.items()
            if key != "$schema" or not isinstance(value, str)
        }
    if isinstance(schema, list | tuple):
        return [_without_dialects(value) for value in schema]
    return schema


def _bounded(keyword: str, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def look(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        listed = (
            schema.get("properties", ()) if keyword.endswith("Properties") else value
        )
        size = len(listed) if isinstance(listed, Mapping | list) else 0
        if next(islice(_steps.get(), size, None), None) is None:
            raise OverflowError("the schema takes too many steps")
        if time.thread_time() > _until.get():
            raise OverflowError("the schema takes too long")
        if keyword == "additionalProperties" and "patternProperties" in schema:
            return
        yield from check(validator, value, instance, schema) or ()

    return look


_Validator = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={
        keyword: _bounded(keyword, check)
        for keyword, check in Draft202012Validator.VALIDATORS.items()
        if keyword not in _UNCHECKED
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)


_SAFE = ("GET", "HEAD")


class ToolCaller:
    """Forwards calls of tools whose names match one of `patterns`, to the `targets` of sources.

    For a tool of an MCP server, its name on the server, alone or as SOURCE/TOOL, has to match too:
    the pack decides which tool a name stands for, and may be wrong. Calls that may change something
    need `writes`: all methods but GET and HEAD, and MCP tools that are not `read_only`.

    A target is found by the label of a tool's source, or by the name of an MCP server. If several
    servers share that, it is found by both, as `keys` gives it.
    """

    def __init__(
        self, patterns: Sequence[str], targets: Mapping[str, Target], *, writes: bool
    ) -> None:
        self._patterns, self.targets, self._writes = patterns, targets, writes
        self._sessions = McpSessions()
        self._pairs: dict[str, set[tuple[str, str]]] = {}
        # The servers of each label, and the labels of each server.
        self._others: dict[str, set[str]] = {}

    def learn(self, finder: str, tools: Iterable[Tool]) -> None:
        """Replace the known labels and servers of a finder."""
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
        """List the possible keys of a tool's target; the first takes precedence, the second is plain."""
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
        """Find the target of a tool; None if there is none, or it is of another kind."""
        call, keys = tool.call, self.keys(tool)
        found = [self.targets[key] for key in keys if key in self.targets]
        own = self.targets.get(tool.sources[0])
        server = call.server.rstrip("/") if isinstance(call, HttpCall) else ""
        if own and server and own.url.rstrip("/") == server:
            found.append(own)
        if not found or bool(found[0].url) != isinstance(call, HttpCall):
            return None
        return found[0]

    def allows(self, tool: Tool) -> bool:
        """Check whether a tool's name, and its name on the server, match a pattern."""
        call = tool.call
        if isinstance(call, McpCall) and not (
            self._fits(call.tool) or self._fits(f"{call.source}/{call.tool}")
        ):
            return False
        return self._fits(tool.name)

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        on_progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Call a tool; gives its answer. `on_progress` gets what an MCP server tells meanwhile.

        Raises:
            CallError: it may not be called, its arguments don't fit, or the call failed.
        """
        call, target = self.find(tool)
        # In a thread, so that other requests are not blocked.
        await asyncio.to_thread(check_arguments, tool, arguments)
        try:
            if isinstance(call, McpCall):
                return await self._sessions.call(
                    call.tool, arguments, target, on_progress
                )
            text = await send(prepare_request(target.url, call, arguments), target)
            return CallToolResult(content=[TextContent(text=text)])
        except InputError as error:
            raise CallError(str(error)) from error

    async def close(self) -> None:
        """End the sessions with MCP servers."""
        await self._sessions.close()

    def find(self, tool: Tool) -> tuple[HttpCall | McpCall, Target]:
        """Find what a tool calls, and its target.

        Raises:
            CallError: it may not be called.
        """
        if not self.allows(tool):
            raise CallError(f"{tool.name} may not be called through this server.")
        call = tool.call
        if not isinstance(call, HttpCall | McpCall):
            raise CallError(f"{tool.name} cannot be called over a network.")
        target = self.find_target(tool)
        if target is None:
            raise CallError(f"{tool.name}: no target is configured for its source.")
        if not self._writes and not _only_reads(call, target):
            raise CallError(
                f"{tool.name} may change something, and this server only allows reading."
            )
        return call, target

    def lets(self, tool: Tool) -> bool:
        """Check whether a tool may be called."""
        try:
            self.find(tool)
        except CallError:
            return False
        return True

    def _fits(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)


def _find_server(tool: Tool) -> str | None:
    """Return the server of a tool by its source; None if it calls none."""
    if isinstance(tool.call, McpCall):
        return tool.call.source
    return tool.call.server or "/" if isinstance(tool.call, HttpCall) else None


def _only_reads(call: HttpCall | McpCall, target: Target) -> bool:
    if isinstance(call, HttpCall):
        return call.method.upper() in _SAFE
    return any(fnmatchcase(call.tool, pattern) for pattern in target.read_only)


def describe_permissions(caller: ToolCaller, tools: Iterable[Tool]) -> list[str]:
    """Report where calls go, and propose targets for sources without one; one line each."""
    targets = caller.targets
    counts, kept = Counter[str](), Counter[str]()
    lacks: dict[str, dict[str, object]] = {}
    used: set[str] = set()
    for tool in tools:
        call = tool.call
        if not caller.allows(tool) or not isinstance(call, HttpCall | McpCall):
            continue
        target = caller.find_target(tool)
        if target is None:
            proposed: dict[str, object] = {"command": ["..."]}
            if isinstance(call, HttpCall):
                proposed = {"url": call.server or "https://..."}
            lacks.setdefault(caller.keys(tool)[:2][-1], proposed)
            continue
        used |= {name for name, one in targets.items() if one is target}
        (counts if caller.lets(tool) else kept)[target.place] += 1
    lines = [
        f"calls of {count:,} tools go to {place}" for place, count in counts.items()
    ]
    lines += [
        f"{count:,} tools of {place} may change something, and need --call-writes"
        for place, count in kept.items()
    ]
    if lacks:
        file = yaml.safe_dump({"sources": lacks}, sort_keys=False, allow_unicode=True)
        lines.append(
            "these sources have no target yet; a proposal from their descriptions for "
            f"--call-config FILE, to be checked first:\n{file}"
        )
    if not counts and not kept and not lacks:
        lines.append("no tool that can be called matches --call")
    for name, target in targets.items():
        if name not in used:
            lines.append(
                f"--call-config: {name} is not the source of a tool that matches --call and can be "
                "called" + (f"; is it now one of {', '.join(lacks)}?" if lacks else "")
            )
        if is_private(target.address) and not (target.private or target.entry):
            lines.append(
                f"--call-config: {name}: the address is not public; without `private: true`, "
                "calls will fail"
            )
        if unset := target.unset():
            lines.append(
                f"--call-config: {name}: {', '.join(unset)} not set; calls will fail"
            )
    return lines
