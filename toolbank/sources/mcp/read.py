"""The tools of all servers of a source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from tqdm import tqdm

from toolbank.sources.kind import Collected
from toolbank.sources.listed import Listed
from toolbank.sources.mcp.client_config import ClientConfig
from toolbank.sources.mcp.connection import ServerError
from toolbank.sources.mcp.listing import Listing, list_tools, quiet_logs
from toolbank.sources.mcp.server import Server
from toolbank.sources.mcp.source import McpSource
from toolbank.sources.mcp.tools import read_tools
from toolbank.system import aio
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_AT_ONCE = 8
_LONGEST_NAME = 100
_UNNAMED = "its name has something in it that may be secret"


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
    asked: list[str] = []

    async def ask(server: Server) -> None:
        async with limit:
            asked.append(server.name or config.label)
            try:
                listing = await list_tools(server, config)
                name = server.name or _clean(listing.name) or _fall_back(config)
                read.listings[name] = listing
            except ServerError as error:
                read.failed[server.name] = error
            asked.remove(server.name or config.label)

    with tqdm(
        bar_format="{desc}", dynamic_ncols=True, leave=False, disable=None
    ) as bar:
        async with anyio.create_task_group() as tasks:
            if not bar.disable:
                tasks.start_soon(_show_progress, bar, asked, read, len(servers))
            async with anyio.create_task_group() as asking:
                for server in servers:
                    asking.start_soon(ask, server)
            tasks.cancel_scope.cancel()


async def _show_progress(
    bar: tqdm[Any], asked: Sequence[str], read: Read, total: int
) -> None:
    """Say once a second which servers are waited for."""
    for seconds in itertools.count(1):
        await anyio.sleep(1)
        done = len(read.listings) + len(read.failed)
        many = f"{done:,} of {total:,} servers; " if total > 1 else ""
        # In the last columns the cursor stands, and the terminal writes ^C.
        width = bar.format_dict["ncols"] - 3
        said = f"{many}{seconds} s, waiting for {', '.join(asked)}"
        bar.set_description_str(one_line(said, width))


def _clean(name: str) -> str:
    """What a server calls itself, as the beginning of names: without line feeds and slashes."""
    return one_line(name, _LONGEST_NAME).replace("/", "-")


def _fall_back(config: McpSource) -> str:
    return config.label.removeprefix("mcp:").replace("/", "-")


def _collect(config: McpSource, read: Read) -> Collected:
    found = Listed()
    problems = list(_describe_failed(config, read))
    notes = [f"{config.label}: {name}: is switched off there" for name in read.disabled]
    for name, listing in sorted(read.listings.items()):
        source = f"mcp:{name}" if config.config is not None else config.label
        before = len(found.tools)
        read_tools(listing.tools, name, source, found)
        for hidden in listing.unnamed:
            found.left_out.add(_UNNAMED, f"{name}/{hidden}")
        here, read_so_far = f"{config.label}: {name}", len(found.tools) - before
        if listing.trouble:
            problems.append(f"{here}: {listing.trouble}; read so far: {read_so_far:,}")
        elif not read_so_far:
            notes.append(f"{here}: it lists no tools")
        if listing.hidden:
            notes.append(
                f"{here}: *** stands in {count(listing.hidden, 'tool')} for what it was given "
                "and may be secret"
            )
    if not found.tools and not read.failed:
        raise InputError(_explain_empty(config, problems, found))
    return Collected(
        tuple(found.tools[name] for name in sorted(found.tools)),
        {
            "source": config.label,
            "servers": {
                n: len(listing.tools) for n, listing in sorted(read.listings.items())
            },
            **found.left_out.as_info(),
        },
        problems=(*problems, *found.left_out.lines(config.label)),
        notes=(*notes, *found.describe_mended(config.label)),
        complete=not read.failed,
        unread=() if config.config is None else tuple(f"mcp:{n}" for n in read.failed),
        check=found.check,
    )


def _explain_empty(config: McpSource, problems: Sequence[str], found: Listed) -> str:
    said = [*problems, *found.left_out.lines(config.label)]
    if said:
        return f"sources: {said[0]}."
    return (
        f"sources: {config.label}: there are no tools; the server lists none. Is it the one "
        "that is meant?"
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
