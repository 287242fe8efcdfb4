"""The tools of all servers of a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio
from tqdm import tqdm

from toolbank.bank.records import Tool
from toolbank.sources.kind import Collected
from toolbank.sources.mcp.account import ServerError
from toolbank.sources.mcp.client_config import ClientConfig
from toolbank.sources.mcp.listing import Listing, list_tools, quiet_logs
from toolbank.sources.mcp.server import Server
from toolbank.sources.mcp.source import McpSource
from toolbank.sources.mcp.tools import ReadTools, read_tools
from toolbank.sources.tool_check import SchemaCheck
from toolbank.system import aio
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_AT_ONCE = 8
_EXAMPLES = 3
_LONGEST_NAME = 100


@dataclass
class Read:
    """What came of the servers: by name what each lists, or why it gave nothing.

    `disabled` are those that their file has switched off.
    """

    listings: dict[str, Listing] = field(default_factory=dict)
    failed: dict[str, ServerError] = field(default_factory=dict)
    disabled: list[str] = field(default_factory=list)


def read_servers(config: McpSource, found: ClientConfig) -> Collected:
    """Ask the servers for their tools, at most eight at once.

    Raises:
        InputError: none gave a tool.
        ToolbankError: none did, for reasons that may pass.
    """
    wrong = {name: ServerError(reason) for name, reason in found.wrong.items()}
    read = Read(failed=wrong, disabled=found.disabled)
    with quiet_logs():
        aio.run(_ask(config, found.servers, read))
    if not read.listings:
        raise _refuse(config, read)
    return _collect(config, read)


async def _ask(config: McpSource, servers: Sequence[Server], read: Read) -> None:
    limit = anyio.CapacityLimiter(_AT_ONCE)
    with tqdm(
        desc=config.label,
        total=len(servers),
        unit="server",
        # One is there or not.
        disable=None if len(servers) > 1 else True,
        leave=False,
    ) as bar:

        async def ask(server: Server) -> None:
            async with limit:
                try:
                    listing = await list_tools(server, config)
                    name = server.name or _sound(listing.name) or _fall_back(config)
                    read.listings[name] = listing
                except ServerError as error:
                    read.failed[server.name] = error
            bar.update()

        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(ask, server)


def _sound(name: str) -> str:
    """What a server calls itself, as the beginning of names: without line feeds and slashes."""
    return one_line(name, _LONGEST_NAME).replace("/", "-")


def _fall_back(config: McpSource) -> str:
    return config.label.removeprefix("mcp:").replace("/", "-")


def _collect(config: McpSource, read: Read) -> Collected:
    check = SchemaCheck()
    several = config.config is not None
    tools: list[Tool] = []
    notes = [f"{config.label}: {name}: is switched off there" for name in read.disabled]
    left_out: dict[str, list[str]] = {}
    for name in sorted(read.listings):
        source = f"mcp:{name}" if several else config.label
        found = read_tools(read.listings[name].tools, name, source, check)
        tools += found.tools.values()
        for reason, names in found.left_out.items():
            left_out.setdefault(reason, []).extend(f"{name}/{n}" for n in names)
        notes += _describe_mended(config, name, found)
        if not found.tools:
            notes.append(f"{config.label}: {name}: it lists no tools")
    if not tools and not read.failed:
        raise InputError(
            f"sources: {config.label}: there are no tools; the server lists none. Is it the one "
            "that is meant?"
        )
    tools.sort(key=lambda tool: tool.name)
    info = {
        "source": config.label,
        "servers": {
            n: len(listing.tools) for n, listing in sorted(read.listings.items())
        },
    }
    if left_out:
        info["left_out"] = {reason: len(names) for reason, names in left_out.items()}
        info["left_out_examples"] = {r: n[:_EXAMPLES] for r, n in left_out.items()}
    return Collected(
        tuple(tools),
        info,
        problems=(
            *_describe_failed(config, read),
            *_describe_left_out(config, left_out),
        ),
        notes=tuple(notes),
        complete=not read.failed,
    )


def _refuse(config: McpSource, read: Read) -> ToolbankError:
    kind = (
        ToolbankError
        if any(error.may_pass for error in read.failed.values())
        else InputError
    )
    lines = "\n".join(_describe_failed(config, read))
    if config.config is not None:
        hint = f"Mend what {config.config} says of it, or name others by `servers`."
    elif config.url is not None:
        hint = "Check `url`, and that the server runs."
    else:
        hint = "Start it by hand to see what is wrong."
    return kind(f"sources: {lines}. {hint}")


def _describe_failed(config: McpSource, read: Read) -> Iterator[str]:
    for name, error in sorted(read.failed.items()):
        server = f"{name}: " if name and config.config is not None else ""
        yield f"{config.label}: {server}{error}"


def _describe_left_out(
    config: McpSource, left_out: dict[str, list[str]]
) -> Iterator[str]:
    for reason, names in left_out.items():
        yield (
            f"{config.label}: left out, since {reason}: {count(len(names), 'tool')}, such as "
            f"{', '.join(names[:_EXAMPLES])}"
        )


def _describe_mended(config: McpSource, server: str, found: ReadTools) -> Iterator[str]:
    for reason, names in found.mended.items():
        yield (
            f"{config.label}: {server}: {count(len(names), 'tool')} with {reason}, such as "
            f"{', '.join(one_line(name, 60) for name in names[:_EXAMPLES])}; mended"
        )
