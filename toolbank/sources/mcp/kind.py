"""MCP servers as a kind of source, and the commands that the user allowed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from toolbank.sources.kind import Collected, Location, SourceKind
from toolbank.sources.mcp.client_config import (
    ClientConfig,
    list_names,
    read_client_config,
)
from toolbank.sources.mcp.source import McpSource, Server
from toolbank.system.errors import InputError
from toolbank.system.extras import install_command
from toolbank.system.secrets import has_hash
from toolbank.system.terminal import confirm
from toolbank.system.trust import Grant, demand

_ENVIRONMENT = "TOOLBANK_TRUSTED_COMMANDS"

_NAME = re.compile(r"[\w.:@()-]+", re.ASCII)
_VARIABLE = re.compile(r"[^\s=/'\"]+=")
# Up to a `;` or an end of line that is not quoted.
_LINE = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;\n])+""", re.DOTALL)

_answered: set[tuple[str, ...]] = set()


def demand_commands(servers: Sequence[Server], label: str) -> None:
    """Ask the user whether these may be started; those that were named already are not asked for.

    Raises:
        InputError: the user refuses, there is no terminal to ask on, or a command or the name of a
            variable could be taken for something else where the line is shown.
    """
    for server in servers:
        _demand_plain_names(server, label)
    trusted = _answered | set(_read(os.environ.get(_ENVIRONMENT, "")))
    unnamed = [s for s in servers if s.command and not _is_named(s, trusted)]
    if not unnamed:
        return
    it = "it" if len(unnamed) == 1 else "them"
    lines = "\n".join(f"  {server.line}" for server in unnamed)
    wanted = f"Reading {label} starts on this machine, as you:\n{lines}"
    if any(_is_named_otherwise(server, trusted) for server in unnamed):
        wanted += (
            f"\n{_ENVIRONMENT} names this command with other values or without them (as toolbank "
            "0.7.0 wrote it); it now has to have the value of each variable, or a secret's hash."
        )
    answer = confirm(f"{wanted}\nStart {it}?")
    if answer is None:
        raise InputError(f"{wanted}\n{_explain(unnamed)}")
    if not answer:
        raise InputError(f"sources: {label}: nothing was started; it can't be read so.")
    _answered.update(_words(server.line) for server in unnamed)


def _demand_plain_names(server: Server, label: str) -> None:
    """Refuse what would be read as another command in a line such as "NAME=value program"."""
    where = f"sources: {label}: {server.name}" if server.name else f"sources: {label}"
    for name in server.environment if server.command else ():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{where}: env {name!r} is no name of a variable: it reads as several words."
            )
    if server.command and "=" in server.command[0]:
        raise InputError(
            f"{where}: command {server.command[0]!r} reads like a variable. Put variables into "
            "`env`, or give the program by a path without `=`."
        )


def _is_named(server: Server, trusted: Collection[tuple[str, ...]]) -> bool:
    lines = [server.line]
    # A value that imitates a hash must not pass for the value that has this hash.
    if not has_hash(server.open_line):
        lines.append(server.open_line)
    return any(_words(line) in trusted for line in lines)


def _is_named_otherwise(server: Server, trusted: Iterable[tuple[str, ...]]) -> bool:
    """Whether the same program is named, with variables of other values or without them."""
    command = _without_variables(_words(server.open_line))
    return any(_without_variables(words) == command for words in trusted)


def _without_variables(words: Sequence[str]) -> tuple[str, ...]:
    start = 3 if words[:1] == ("cd",) and words[2:3] == ("&&",) else 0
    variables = itertools.takewhile(_VARIABLE.match, words[start:])
    return (*words[:start], *words[start + len(list(variables)) :])


def _explain(unnamed: Sequence[Server]) -> str:
    """What to do where there is no terminal, for who reads it in a log."""
    before = f'"${_ENVIRONMENT};"' if os.environ.get(_ENVIRONMENT) else ""
    lines = shlex.quote("; ".join(server.line for server in unnamed))
    return (
        "You have not said that this may be started. On a terminal you are asked. Elsewhere, name "
        f"the command, and run the same command again:\n  export {_ENVIRONMENT}={before}{lines}"
    )


def _words(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line))


def _read(text: str) -> Iterator[tuple[str, ...]]:
    """Command lines as a shell takes them, with `;` or an end of line between several."""
    for line in _LINE.findall(text):
        try:
            yield _words(line)
        except ValueError as error:
            raise InputError(
                f"{_ENVIRONMENT}: can't be read ({error}). Write command lines as a shell takes "
                "them, with ; between several."
            ) from error


_LARGEST_FILE = 1024 * 1024


def _read_tools(config: McpSource, _: Path) -> Collected:
    try:
        from toolbank.sources.mcp.read import read_servers
    except ImportError as error:
        raise InputError(
            f"sources: {config.label}: MCP servers are read by the package mcp, of which no "
            f"version from 2.2 on is installed. Get it with: {install_command('mcp')}"
        ) from error

    found = _find_servers(config)
    for server in found.servers:
        demand(server.grants, f"sources: {config.label}", "url")
    demand_commands(found.servers, config.label)
    return read_servers(config, found)


def _content_id(config: McpSource) -> str:
    """What a recipe says of the servers, or their names in the file, and nothing else of it."""
    if config.config is not None:
        names = list_names(config.config, config.servers)
        return f"{config.label}@{', '.join(names)}"
    reached = json.dumps([config.command, config.url, config.name])
    return f"{config.label}@{hashlib.sha256(reached.encode()).hexdigest()[:16]}"


def _labels(config: McpSource) -> tuple[str, ...]:
    """Its own, and those of the servers of a file, also of those that are not read."""
    if config.config is None or config.name:
        return (config.label,)
    names = list_names(config.config, config.servers)
    return (config.label, *(f"mcp:{name}" for name in names))


def _starts(config: McpSource) -> tuple[str, ...]:
    return tuple(s.line for s in _find_servers(config).servers if s.command)


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
    variables = dict.fromkeys(
        filter(None, (*config.headers.values(), config.token_env))
    )
    try:
        grants = tuple(Grant.of(variable, url) for variable in variables)
    except ValueError as error:
        raise InputError(
            f"sources: {config.label}: url: no address that a token can be sent to. Give one "
            "such as https://HOST/mcp."
        ) from error
    return ClientConfig(
        [Server(name, url=url, headers=headers, grants=grants, is_open=True)]
    )


def _value(config: McpSource, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InputError(
            f"sources: {config.label}: the environment variable {variable} is not set. Run "
            f"`export {variable}=...`, or take it out of the recipe."
        )
    return value


def _recognise(location: Location) -> McpSource | None:
    """A file of servers, an address that ends in /mcp, or the command line of a program."""
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
    head = location.content[:_LARGEST_FILE]
    if location.path is None or not head.lstrip().startswith(b"{"):
        return False
    if b'"mcpServers"' in head:
        return True
    try:
        return len(head) < _LARGEST_FILE and bool(list_names(location.path, None))
    except InputError:
        return False


KIND = SourceKind(
    McpSource,
    _read_tools,
    _content_id,
    starts=_starts,
    recognise=_recognise,
    labels=_labels,
    takes="an mcpServers file, an MCP server's URL (https://HOST/mcp) or its command in quotes",
)
