"""`toolbank serve`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.commands.serving import Listening, serve_http, serve_stdio
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from toolbank.search.calls.caller import Caller
    from toolbank.search.serve.shelf import Shelf


_OF_HTTP = ("host", "port", "no_key", "allow_host")


def serve(
    context: typer.Context,
    finders: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]DIR",
            help="Packed finders; the first is at /search, each at /NAME/search.",
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8765,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Let anybody in who reaches the address.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that the server has; repeatable."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOOL", help="List it whatever was asked for; repeatable."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Log what was found and chosen, without the requests."
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
            help="Pass on calls of tools whose names fit, such as 'pets*'; repeatable.",
        ),
    ] = None,
    call_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A YAML file that says where calls go."),
    ] = None,
    call_writes: Annotated[
        bool,
        typer.Option("--call-writes", help="Pass on what may change something, too."),
    ] = False,
) -> None:
    """Serve packed finders over HTTP and MCP, with a page to search on."""
    from toolbank.search.serve.shelf import Shelf, name_folders

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
    caller = _make_caller(shelf, call or [], call_config, call_writes)
    if mcp:
        serve_stdio(shelf, log, caller, log_text=log_text)
        return
    serve_http(
        shelf,
        Listening(host, port, tuple(allow_host or ()), without_key=no_key),
        log,
        caller,
        log_text=log_text,
    )


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
    shelf: Shelf, patterns: list[str], config: Path | None, writes: bool
) -> Caller | None:
    """Who passes calls on; where they go is printed."""
    if not patterns:
        return None
    from toolbank.search.calls.caller import Caller, describe_leave
    from toolbank.search.calls.config import read_targets

    targets = read_targets(config) if config else {}
    caller = Caller(patterns, targets, writes=writes)
    for name in shelf.names:
        caller.learn(name, shelf[name].tools)
    shelf.on_renewal = lambda name, finder: caller.learn(name, finder.tools)
    for name in shelf.names:
        for line in describe_leave(caller, shelf[name].tools):
            print_message(f"{name}: {line}")
    return caller
