"""What `toolbank serve` starts: a server over HTTP, or MCP on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.commands.options import echo
from toolbank.system.errors import InputError
from toolbank.system.extras import demand_library
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolbank.search.calls.caller import Caller
    from toolbank.search.serve.searches import Searches
    from toolbank.search.serve.shelf import Shelf


@dataclass(frozen=True)
class Listening:
    """The address that a server listens at, its further names, and whether it asks for no key."""

    host: str
    port: int
    names: tuple[str, ...]
    without_key: bool


def serve_http(
    shelf: Shelf,
    at: Listening,
    log: Path | None,
    caller: Caller | None,
    *,
    log_text: bool,
) -> None:
    """Serve until it is stopped.

    Raises:
        InputError: the address can't be listened at, or it would be open to others.
    """
    from toolbank.search.serve.api import Api
    from toolbank.search.serve.app import create_app
    from toolbank.search.serve.feedback import FeedbackLog
    from toolbank.search.serve.searches import Searches
    from toolbank.search.serve.server import open_socket, run_app
    from toolbank.search.serve.shelf import KEY_VARIABLE, make_access

    key = os.environ.get(KEY_VARIABLE, "")
    access = make_access(at.host, key, list(at.names), without_key=at.without_key)
    if caller is not None and not access.key:
        raise InputError(
            f"--call: over HTTP whoever reaches the server could call. Set {KEY_VARIABLE}, or "
            "serve by --mcp."
        )
    feedback = FeedbackLog(log, with_text=log_text) if log else None
    listening = open_socket(at.host, at.port)
    searches = Searches(shelf, feedback)
    app = create_app(Api(searches), access, _make_mcp_apps(searches, caller))
    shown = f"[{at.host}]" if ":" in at.host else at.host
    port = listening.getsockname()[1]
    echo(f"Serving {', '.join(shelf.names)} at http://{shown}:{port}/")
    if access.key:
        print_message(f"Asks for the key in {KEY_VARIABLE}.")
    print_message("Ctrl-C stops.")
    run_app(app, listening, shelf.look_now)
    print_message("stopped")


def serve_stdio(
    shelf: Shelf, log: Path | None, caller: Caller | None, *, log_text: bool
) -> None:
    """Speak MCP until stdin ends."""
    from toolbank.search.serve.feedback import FeedbackLog
    from toolbank.search.serve.mcp import Calls, create_mcp
    from toolbank.search.serve.searches import Searches

    name = shelf.names[0]
    feedback = FeedbackLog(log, with_text=log_text) if log else None
    print_message(
        f"{name}: {len(shelf[name].tools):,} tools over MCP on stdin and stdout"
    )
    calls = Calls(caller) if caller is not None else None
    server = create_mcp(Searches(shelf, feedback), name, calls)

    async def speak() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, shelf.look_now)
        watching = asyncio.create_task(shelf.watch())
        try:
            await server.run_stdio_async()
        finally:
            watching.cancel()

    asyncio.run(speak())


def _make_mcp_apps(searches: Searches, caller: Caller | None) -> list[Starlette]:
    """MCP at /mcp, and behind each finder's name, where the extra is installed."""
    if caller is not None:
        demand_library("mcp", "--call")
    if find_spec("mcp") is None:
        return []
    from toolbank.search.serve.mcp import create_mcp_apps

    return create_mcp_apps(searches, caller)
