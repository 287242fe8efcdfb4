"""`toolbank serve`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.commands.options import echo
from toolbank.system.errors import InputError
from toolbank.system.extras import require_library
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolbank.search.calls.caller import ToolCaller
    from toolbank.search.serve.app import Access
    from toolbank.search.serve.searches import Searches, Shelf


def serve_http(
    shelf: Shelf,
    searches: Searches,
    host: str,
    port: int,
    access: Access,
    caller: ToolCaller | None,
) -> None:
    """Serve until it is stopped.

    Raises:
        InputError: the address can't be listened at.
    """
    from toolbank.search.serve.api import Api
    from toolbank.search.serve.app import KEY_VARIABLE, create_app
    from toolbank.search.serve.server import open_socket, run_app

    listening = open_socket(host, port)
    apps = _make_mcp_apps(searches, caller)
    app = create_app(Api(searches), access, apps, caller)
    shown = f"[{host}]" if ":" in host else host
    port = listening.getsockname()[1]
    echo(f"Serving {', '.join(shelf.names)} at http://{shown}:{port}/")
    if access.key:
        print_message(f"Asks for the key in {KEY_VARIABLE}.")
    print_message("Ctrl-C stops.")
    run_app(app, listening, shelf.look_now)
    print_message("stopped")


def serve_stdio(shelf: Shelf, searches: Searches, caller: ToolCaller | None) -> None:
    """Speak MCP until stdin ends."""
    from toolbank.search.serve.mcp import CallQueue, create_mcp

    name = shelf.names[0]
    print_message(
        f"{name}: {len(shelf[name].tools):,} tools over MCP on stdin and stdout"
    )
    calls = CallQueue(caller, searches.log_call) if caller is not None else None
    server = create_mcp(searches, name, calls)

    async def stop() -> None:
        # Called servers are in process groups of their own, and would go on.
        if caller is not None:
            await caller.close()
        # The thread that reads stdin can't be stopped.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    async def speak() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, shelf.look_now)
        stopping = set[asyncio.Task[None]]()
        loop.add_signal_handler(
            signal.SIGTERM, lambda: stopping.add(asyncio.create_task(stop()))
        )
        watching = asyncio.create_task(shelf.watch())
        try:
            await server.run_stdio_async()
        finally:
            watching.cancel()
            if caller is not None:
                await caller.close()

    asyncio.run(speak())


def _make_mcp_apps(searches: Searches, caller: ToolCaller | None) -> list[Starlette]:
    """MCP at /mcp, and behind each finder's name, where the extra is installed."""
    if find_spec("mcp") is None:
        return []
    from toolbank.search.serve.mcp import create_mcp_apps

    return create_mcp_apps(searches, caller)


_OF_HTTP = ("host", "port", "no_key", "allow_host")


def serve(
    context: typer.Context,
    finders: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]DIR",
            help="Packed finders. Each is served at /NAME/search, and the first also at /search.",
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 takes any free port.")
    ] = 8765,
    no_key: Annotated[
        bool,
        typer.Option(
            "--no-key",
            help=(
                "Do not require the key of TOOLBANK_API_KEY: anybody who reaches the address "
                "can use the server."
            ),
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name by which clients may address the server; repeatable.",
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOOL", help="List this tool in every answer; repeatable."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Log the tools found, and those that users chose, without the requests.",
        ),
    ] = None,
    log_text: Annotated[
        bool,
        typer.Option("--log-text", help="Log the requests, too, to train on them."),
    ] = False,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Speak MCP on stdin and stdout, and no HTTP.")
    ] = False,
    call: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Forward calls of tools whose names match, such as 'pets*'; repeatable.",
        ),
    ] = None,
    call_config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "A YAML file that says where calls go, or the file in which an MCP client lists "
                "its servers; repeatable."
            ),
        ),
    ] = None,
    call_writes: Annotated[
        bool,
        typer.Option("--call-writes", help="Also forward calls that may change data."),
    ] = False,
) -> None:
    """Serve packed finders over HTTP and MCP, with a search page."""
    from toolbank.search.serve.app import KEY_VARIABLE, make_access
    from toolbank.search.serve.feedback import FeedbackLog
    from toolbank.search.serve.searches import Searches, Shelf, name_folders

    if log_text and log is None:
        raise typer.BadParameter("--log-text goes with --log FILE.")
    if (call_config or call_writes) and not call:
        raise typer.BadParameter(
            "--call-config and --call-writes go with --call PATTERN."
        )
    folders = name_folders(finders)
    if mcp:
        _check_stdio(context, folders)
    shelf = Shelf(folders, pin or [], print_message)
    for name in shelf.names:
        print_message(f"{name}: {shelf.explain_scores(name)}")
    caller = _make_caller(shelf, call or [], call_config or [], call_writes)
    if not mcp:
        key = os.environ.get(KEY_VARIABLE, "")
        access = make_access(host, key, allow_host or [], without_key=no_key)
        if caller is not None and not access.key:
            raise InputError(
                "--call: over HTTP whoever reaches the server could call. Set "
                f"{KEY_VARIABLE}, or serve by --mcp."
            )
    searches = Searches(shelf, FeedbackLog(log, with_text=log_text) if log else None)
    if mcp:
        serve_stdio(shelf, searches, caller)
    else:
        serve_http(shelf, searches, host, port, access, caller)


def _check_stdio(context: typer.Context, folders: Mapping[str, Path]) -> None:
    if len(folders) > 1:
        raise typer.BadParameter("--mcp serves one finder.")
    for name in _OF_HTTP:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"{option} is of HTTP; --mcp speaks on stdin and stdout. Without --mcp, HTTP has "
                "/mcp, too."
            )


def _make_caller(
    shelf: Shelf, patterns: list[str], configs: list[Path], writes: bool
) -> ToolCaller | None:
    """Who passes calls on; where they go is printed."""
    if not patterns:
        return None
    require_library("mcp", "--call")
    from toolbank.search.calls import read_targets
    from toolbank.search.calls.caller import ToolCaller, describe_permissions

    targets = read_targets(configs)
    caller = ToolCaller(patterns, targets, writes=writes)
    for name in shelf.names:
        caller.learn(name, shelf[name].tools)
    shelf.on_renewal = lambda name, finder: caller.learn(name, finder.tools)
    for name in shelf.names:
        for line in describe_permissions(caller, shelf[name].tools):
            print_message(f"{name}: {line}")
    return caller
