"""`toolbank serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import echo
from toolbank.system.terminal import print_message


def serve(
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
) -> None:
    """Serve packed finders over HTTP, with a page to search on."""
    from toolbank.serve.api import Api
    from toolbank.serve.app import create_app
    from toolbank.serve.feedback import FeedbackLog
    from toolbank.serve.server import open_socket, run_app
    from toolbank.serve.settings import KEY_VARIABLE, make_access
    from toolbank.serve.shelf import Shelf, name_folders

    if log_text and log is None:
        raise typer.BadParameter("--log-text goes with --log FILE.")
    key = os.environ.get(KEY_VARIABLE, "")
    access = make_access(host, key, allow_host or [], without_key=no_key)
    folders = name_folders(finders)
    feedback = FeedbackLog(log, with_text=log_text) if log else None
    listening = open_socket(host, port)
    shelf = Shelf(folders, pin or [], print_message)
    app = create_app(Api(shelf, feedback), access)
    shown = f"[{host}]" if ":" in host else host
    echo(
        f"Serving {', '.join(shelf.names)} at http://{shown}:{listening.getsockname()[1]}/"
    )
    if access.key:
        print_message(f"Asks for the key in {KEY_VARIABLE}.")
    print_message("Ctrl-C stops.")
    run_app(app, listening, shelf.look_now)
    print_message("stopped")
