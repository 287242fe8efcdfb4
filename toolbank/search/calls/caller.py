"""Which tools may be called, the check of their arguments, and what the operator is shown."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create
from referencing import Registry

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import send
from toolbank.search.calls.mcp import send_to_mcp
from toolbank.search.calls.request import prepare_request
from toolbank.system.errors import InputError
from toolbank.system.net import is_private
from toolbank.system.secrets import mask_command

MOST_STEPS = 30_000
"""What is looked at for one call, keywords and what they list: schemas can refer to others ever so
often."""
MOST_TIME = 0.5
"""Seconds of a processor that the check of one call may take: each step can have much to look at."""
_LEFT_OUT = frozenset(
    [
        "pattern",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
_HERE: Registry[Any] = Registry()
"""Of schemas that others may be referred to: none, so that nothing is fetched."""
_steps: ContextVar[Iterator[int]] = ContextVar("steps")
_until: ContextVar[float] = ContextVar("until")


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check a tool's arguments against its schema, by draft 2020-12 whatever it says it is.

    Not looked at are `pattern` and `patternProperties`, with the `additionalProperties` beside
    them: a regular expression can be made to take for ever. Nor are `uniqueItems`,
    `unevaluatedItems` and `unevaluatedProperties`, whose work isn't bounded either. Whose tool it
    is checks them.

    Raises:
        CallError: they don't fit, can't be sent, or the schema is no good.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise CallError("The arguments hold what JSON and UTF-8 can't.") from error
    _steps.set(iter(range(MOST_STEPS)))
    _until.set(time.thread_time() + MOST_TIME)
    try:
        schema = _without_dialects(tool.parameters)
        _Validator(schema, registry=_HERE).validate(dict(arguments))
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        where = f" at {place}" if place else ""
        raise CallError(
            f"The arguments don't fit{where}: {error.message[:500]}"
        ) from error
    # What is wrong with a schema comes out as almost any exception.
    except Exception as error:
        raise CallError(
            f"{tool.name}: its schema can't be checked, so it is not called."
        ) from error


def _without_dialects(schema: Any) -> Any:
    """The schema without `$schema`, by which a part of it would be checked by another validator."""
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
        if keyword not in _LEFT_OUT
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)


_SAFE = ("GET", "HEAD")


class ToolCaller:
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


def describe_leave(caller: ToolCaller, tools: Iterable[Tool]) -> list[str]:
    """Lines on where the calls of tools go, and what to write down for those that go nowhere.

    The caller has learnt which servers there are.
    """
    counts: dict[str, int] = {}
    targets = caller.targets
    kept: dict[str, int] = {}
    lacks: dict[str, dict[str, object]] = {}
    used: set[str] = set()
    for tool in tools:
        call = tool.call
        if not caller.allows(tool) or not isinstance(call, HttpCall | McpCall):
            continue
        target = caller.find_target(tool)
        if target is None:
            first, *plainer = caller.keys(tool)
            lacks.setdefault(plainer[0] if plainer else first, _propose(call))
            continue
        used |= {name for name, one in targets.items() if one is target}
        place = target.url or target.mcp or " ".join(mask_command(target.command))
        found = counts if caller.lets(tool) else kept
        found[place] = found.get(place, 0) + 1
    lines = [
        f"calls of {count:,} tools go to {place}" for place, count in counts.items()
    ]
    lines += [
        f"{count:,} tools of {place} may change something, and are called with --call-writes alone"
        for place, count in kept.items()
    ]
    if lacks:
        proposed = yaml.safe_dump(
            {"sources": lacks}, sort_keys=False, allow_unicode=True
        )
        lines.append(
            "calls of these sources go nowhere yet; what their descriptions propose, for "
            f"--call-config FILE, to be looked at first:\n{proposed}"
        )
    if not counts and not kept and not lacks:
        lines.append("no tool that can be called fits --call")
    for name, target in targets.items():
        if name not in used:
            lines.append(
                f"--call-config: {name} is the source of no tool that fits --call and can be "
                "called so"
                + (f"; is it one of {', '.join(lacks)} by now?" if lacks else "")
            )
        if is_private(target.url or target.mcp) and not target.private:
            lines.append(
                f"--call-config: {name}: the address is not a public one; without `private: true` "
                "its calls will fail"
            )
        if unset := target.unset():
            lines.append(
                f"--call-config: {name}: {', '.join(unset)} not set; its calls will fail"
            )
    return lines


def _propose(call: HttpCall | McpCall) -> dict[str, object]:
    if isinstance(call, McpCall):
        return {"command": ["..."]}
    return {"url": call.server or "https://..."}
