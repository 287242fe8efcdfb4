"""MCP servers as a source: commands that the user allowed to start, and URLs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from toolbank.sources.kind import Location, SourceKind, ToolCollection
from toolbank.sources.mcp.client_config import (
    ClientConfig,
    list_names,
    lists_servers,
    read_client_config,
)
from toolbank.sources.mcp.settings import McpSource, Server
from toolbank.system.consent import grant_to_send, require_consent
from toolbank.system.errors import InputError
from toolbank.system.extras import install_command

_NAME = re.compile(r"[\w.:@()][\w.:@()-]*", re.ASCII)


def require_consent_to_read(servers: Sequence[Server], label: str) -> None:
    """Ask the user whether servers may be started, or receive secrets of the environment.

    Raises:
        InputError: the user refuses, there is no terminal to ask on, or a command or the name of a
            variable is ambiguous in the question.
    """
    sent = [grant for server in servers for grant in server.grants]
    commands = [server for server in servers if server.command]
    for server in commands:
        _refuse_ambiguous_names(server, label)
    started = [server.grant_to_start for server in commands]
    require_consent([*sent, *started], f"sources: {label}")


def _refuse_ambiguous_names(server: Server, label: str) -> None:
    """Refuse what reads like another command in a line such as "NAME=value program"."""
    where = f"sources: {label}: {server.name}" if server.name else f"sources: {label}"
    for name in server.environment:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{where}: env {name!r} is not the name of a variable. Use letters, digits and _."
            )
    if "=" in server.command[0]:
        raise InputError(
            f"{where}: command {server.command[0]!r} reads like a variable. Put variables into "
            "`env`, or give the program by a path without `=`."
        )


_LARGEST_FILE = 1024 * 1024
_OTHER_ENDINGS = (".toml", ".yaml", ".yml")
_LISTS_SERVERS = re.compile(rb"^\[?(mcpServers|mcp_servers)\b", re.M)
_MAY_LIST_SERVERS = re.compile(rb"^\[?(mcpServers|mcp_servers|extensions|mcp)\b", re.M)


def _read_tools(config: McpSource, _: Path) -> ToolCollection:
    try:
        from toolbank.sources.mcp.read import read_servers
    except ImportError as error:
        raise InputError(
            f"sources: {config.label}: MCP servers need the package mcp, version 2.2 or later. "
            f"Install it with: {install_command('mcp')}"
        ) from error

    found = _find_servers(config)
    require_consent_to_read(found.servers, config.label)
    return read_servers(config, found)


def _content_id(config: McpSource) -> str:
    """Identify the servers by the recipe, or by their names in the file and nothing else of it."""
    if config.config is not None:
        names = list_names(config.config, config.servers)
        return f"{config.label}@{', '.join(names)}"
    reached = json.dumps([config.command, config.url, config.name])
    return f"{config.label}@{hashlib.sha256(reached.encode()).hexdigest()[:16]}"


def _labels(config: McpSource) -> tuple[str, ...]:
    """The label of the source, and those of all servers of its file."""
    if config.config is None or config.name:
        return (config.label,)
    names = list_names(config.config, config.servers)
    return (config.label, *(f"mcp:{name}" for name in names))


def _starts(config: McpSource) -> tuple[str, ...]:
    servers = [s for s in _find_servers(config).servers if s.command]
    return tuple(str(s.grant_to_start).removeprefix("start ") for s in servers)


def _find_servers(config: McpSource) -> ClientConfig:
    if config.config is not None:
        return read_client_config(config.config, config.servers)
    name = config.name or ""
    if config.command is not None:
        given = {variable: _value(config, variable) for variable in config.env}
        return ClientConfig([Server(name, config.command, given, is_open=True)])
    headers = {h: _value(config, variable) for h, variable in config.headers.items()}
    if config.token_env:
        headers["Authorization"] = f"Bearer {_value(config, config.token_env)}"
    url = config.url or ""
    variables = dict.fromkeys([*config.headers.values(), config.token_env or ""])
    key = f"sources: {config.label}: url"
    grants = tuple(grant_to_send(one, url, key) for one in variables if one)
    server = Server(name, url=url, headers=headers, grants=grants, is_open=True)
    return ClientConfig([server])


def _value(config: McpSource, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InputError(
            f"sources: {config.label}: the environment variable {variable} is not set. Run "
            f"`export {variable}=...`, or remove it from the recipe."
        )
    return value


def _recognise(location: Location) -> McpSource | None:
    """Recognise a file of servers, a URL that ends in /mcp, or a command line."""
    if location.is_url:
        last = urlsplit(location.text).path.rstrip("/").rpartition("/")[2]
        return McpSource(url=location.text) if last == "mcp" else None
    if location.path is not None:
        return McpSource(config=location.path) if _lists_servers(location) else None
    try:
        command = shlex.split(location.text)
    except ValueError:
        return None
    is_command = len(command) > 1 and shutil.which(command[0])
    return McpSource(command=tuple(command)) if is_command else None


def _lists_servers(location: Location) -> bool:
    if location.path is None or not location.path.is_file():
        return False
    head = location.content[:_LARGEST_FILE].removeprefix(b"\xef\xbb\xbf").lstrip()
    if location.path.suffix.lower() in _OTHER_ENDINGS:
        may_be = bool(_MAY_LIST_SERVERS.search(head))
        is_sure = bool(_LISTS_SERVERS.search(head))
    else:
        may_be, is_sure = head[:1] in (b"{", b"/"), b'"mcpServers"' in head
    if not may_be or (len(location.content) > _LARGEST_FILE and not is_sure):
        return False
    try:
        return lists_servers(location.path)
    except InputError:
        return is_sure


KIND = SourceKind(
    McpSource,
    _read_tools,
    _content_id,
    starts=_starts,
    recognise=_recognise,
    labels=_labels,
    takes="an MCP client's file, an MCP server's URL (https://HOST/mcp) or its command in quotes",
)
