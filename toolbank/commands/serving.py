"""What `toolbank serve` starts: a server over HTTP, or MCP on stdin and stdout."""

from __future__ import annotations

import os
from collections.abc import Callable
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

    from toolbank.calls.caller import Caller
    from toolbank.packed.finder import Answer, PackedFinder
    from toolbank.serve.feedback import FeedbackLog
    from toolbank.serve.shelf import Shelf


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
    from toolbank.serve.api import Api
    from toolbank.serve.app import create_app
    from toolbank.serve.feedback import FeedbackLog
    from toolbank.serve.server import open_socket, run_app
    from toolbank.serve.settings import KEY_VARIABLE, make_access

    key = os.environ.get(KEY_VARIABLE, "")
    access = make_access(at.host, key, list(at.names), without_key=at.without_key)
    if caller is not None and not access.key:
        raise InputError(
            f"--call: over HTTP whoever reaches the server could call. Set {KEY_VARIABLE}, or "
            "serve by --mcp."
        )
    feedback = FeedbackLog(log, with_text=log_text) if log else None
    listening = open_socket(at.host, at.port)
    app = create_app(
        Api(shelf, feedback), access, _make_mcp_apps(shelf, caller, feedback)
    )
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
    from toolbank.serve.feedback import FeedbackLog
    from toolbank.serve.mcp.server import create_mcp

    name = shelf.names[0]
    feedback = FeedbackLog(log, with_text=log_text) if log else None
    print_message(
        f"{name}: {len(shelf[name].tools):,} tools over MCP on stdin and stdout"
    )
    create_mcp(lambda: shelf[name], caller, _logging(feedback, name)).run()


def _make_mcp_apps(
    shelf: Shelf, caller: Caller | None, feedback: FeedbackLog | None
) -> list[Starlette]:
    """MCP at /mcp, and behind each finder's name, where the extra is installed."""
    if caller is not None:
        demand_library("mcp", "--call")
    if find_spec("mcp") is None:
        return []
    from mcp.server.transport_security import TransportSecuritySettings

    from toolbank.serve.mcp.server import create_mcp

    # Host and Origin are checked for all routes alike.
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    apps = []
    for place, name in [
        ("", shelf.names[0]),
        *((f"/{one}", one) for one in shelf.names),
    ]:

        def find(name: str = name) -> PackedFinder:
            return shelf[name]

        server = create_mcp(find, caller, _logging(feedback, name))
        apps.append(
            server.streamable_http_app(
                streamable_http_path=f"{place}/mcp",
                json_response=True,
                stateless_http=True,
                transport_security=checked,
            )
        )
    return apps


def _logging(
    feedback: FeedbackLog | None, name: str
) -> Callable[[str, Answer], None] | None:
    """What writes an agent's searches down."""
    if feedback is None:
        return None
    log = feedback

    def searched(query: str, answer: Answer) -> None:
        log.searched(name, query, answer)

    return searched
