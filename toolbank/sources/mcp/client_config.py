"""Read the file in which a client, such as Claude, Cursor or VS Code, lists MCP servers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolbank.sources.mcp.settings import Server, is_address
from toolbank.system.consent import grant_to_send
from toolbank.system.errors import InputError
from toolbank.system.files import parse_json, read_text
from toolbank.system.terminal import one_line

_EXAMPLE = (
    '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]}}}'
)
_LONGEST_NAME = 100
_STREAMABLE = ("http", "streamable-http", "streamableHttp", "streamable_http")
_URLS = ("url", "serverUrl", "httpUrl")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
# Editors write JSON with comments. Strings are matched first: they may contain the same characters.
_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
# Variables of editors, written like environment variables.
_OF_EDITORS = re.compile(r"input:.*|command:.*|config:.*|workspace.*|file.*|selected.*")


class _EntryError(ValueError):
    """The entry of a server is wrong; the message repeats nothing of it."""


@dataclass
class ClientConfig:
    """The servers of a file, the errors of wrong entries by name, and the disabled servers."""

    servers: list[Server] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    disabled: list[str] = field(default_factory=list)


def list_names(path: Path, requested: tuple[str, ...] | None) -> list[str]:
    """List the names of the servers of a file, or of the requested ones, sorted.

    Raises:
        InputError: as `read_client_config`.
    """
    return sorted(_read_entries(path, requested))


def read_client_config(path: Path, requested: tuple[str, ...] | None) -> ClientConfig:
    """Read the servers of a file with `mcpServers` or `servers`, or the requested ones.

    Comments and trailing commas are allowed. `${NAME}`, `${env:NAME}` and `${NAME:-default}` are
    environment variables, `${userHome}` is the home folder. The content is secret: no message
    repeats it.

    Raises:
        InputError: it can't be read, has no servers, or lacks a requested server.
    """
    found = ClientConfig()
    for name, entry in _read_entries(path, requested).items():
        try:
            if not isinstance(entry, dict):
                raise _EntryError("its entry is not a JSON object")
            if entry.get("disabled") is True and requested is None:
                found.disabled.append(name)
            else:
                found.servers.append(_read_server(name, entry))
        except _EntryError as error:
            found.wrong[name] = str(error)
    return found


def _read_entries(path: Path, requested: tuple[str, ...] | None) -> dict[str, Any]:
    text = read_text(path)
    for no_json in (_COMMENT, _LAST_COMMA):
        text = no_json.sub(lambda found: found[1] or " ", text)
    data = parse_json(text, path)
    data = data if isinstance(data, dict) else {}
    inner = data["mcp"] if isinstance(data.get("mcp"), dict) else {}
    places = data.get("mcpServers"), data.get("servers"), inner.get("servers")
    entries = next((one for one in places if isinstance(one, dict) and one), None)
    if entries is None:
        raise InputError(
            f"{path}: there are no MCP servers in it. Write it like {_EXAMPLE}."
        )
    named: dict[str, Any] = {}
    for key, entry in entries.items():
        named[_new_name(one_line(key, _LONGEST_NAME), named)] = entry
    if requested is None:
        return named
    if missing := [name for name in requested if name not in named]:
        raise InputError(
            f"{path}: there is no server {', '.join(map(repr, missing))}. Choose from: "
            f"{', '.join(sorted(named))}."
        )
    return {name: named[name] for name in dict.fromkeys(requested)}


def _new_name(name: str, taken: Collection[str]) -> str:
    """Add a number to a name that is taken."""
    names = (f"{name} ({number})" for number in itertools.count(2))
    return next(n for n in itertools.chain((name,), names) if n not in taken)


def _read_server(name: str, entry: Mapping[str, Any]) -> Server:
    """Read the entry of a server.

    Raises:
        _EntryError: the entry is wrong.
    """
    kind = entry.get("type") or entry.get("transport")
    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    if kind == "stdio" or (entry.get("command") and not url):
        return _read_command(name, entry)
    if not url:
        raise _EntryError("it has neither `command` nor `url`")
    if kind not in (None, "sse", *_STREAMABLE):
        raise _EntryError("its type is not stdio, http or sse")
    return _read_address(name, entry, url, kind == "sse")


def _read_command(name: str, entry: Mapping[str, Any]) -> Server:
    command, args = entry.get("command"), entry.get("args") or []
    if not isinstance(args, list):
        raise _EntryError("args is no list")
    words = [*(command if isinstance(command, list) else [command]), *args]
    environment = _mapping(entry, "env")
    expanded = [_expand(word, "command") for word in words]
    if not (expanded and expanded[0].strip()):
        raise _EntryError("its command is empty")
    values = {key: _expand(v, f"env.{key}") for key, v in environment.items()}
    folder = entry.get("cwd")
    try:
        folder = str(Path(_expand(folder, "cwd")).expanduser()) if folder else ""
    except RuntimeError as error:
        raise _EntryError("cwd is in the home of an unknown user") from error
    return Server(name, tuple(expanded), values, folder)


def _read_address(
    name: str, entry: Mapping[str, Any], url: Any, uses_sse: bool
) -> Server:
    sent: list[str] = []

    def look_up(variable: str) -> str | None:
        value = os.environ.get(variable)
        if value is not None:
            sent.append(variable)
        return value

    address = _expand(url, "url", look_up)
    given = _mapping(entry, "headers")
    headers = {key: _expand(v, f"headers.{key}", look_up) for key, v in given.items()}
    if not is_address(address):
        raise _EntryError("its url is not an http or https URL")
    for key, value in headers.items():
        if not (key.isascii() and value.isascii() and f"{key}{value}".isprintable()):
            raise _EntryError(f"headers.{key} has a character that headers cannot have")
    parts = urlsplit(address)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        grants = tuple(grant_to_send(one, place, "url") for one in dict.fromkeys(sent))
    except InputError as error:
        what = "its url is not an address that a token can be sent to"
        raise _EntryError(what) from error
    return Server(name, url=address, headers=headers, uses_sse=uses_sse, grants=grants)


def _expand(
    text: Any, key: str, look_up: Callable[[str], str | None] = os.environ.get
) -> str:
    """Replace the variables in a text."""
    if isinstance(text, bool | int | float):
        text = str(text).lower() if isinstance(text, bool) else str(text)
    if not isinstance(text, str) or "\0" in text:
        raise _EntryError(f"{key} is not a text")

    def replace(match: re.Match[str]) -> str:
        inner = match[1]
        if inner == "userHome":
            return str(Path.home())
        variable = _VARIABLE.fullmatch(inner)
        if _OF_EDITORS.fullmatch(inner) or not variable:
            raise _EntryError(
                f"{key} has ${{{inner.partition(':')[0]}...}}, which only its editor can replace; "
                "use an environment variable, as ${env:NAME}"
            )
        name, default = variable.groups()
        value = look_up(name)
        if value is None and default is None:
            raise _EntryError(
                f"{key} names the environment variable {name}, which is not set"
            )
        return default if value is None else value

    return _REFERENCE.sub(replace, text)


def _mapping(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key) or {}
    if not isinstance(value, dict) or not all(
        name and "=" not in name and name.isprintable() for name in value
    ):
        raise _EntryError(f"{key} is no object of names and texts")
    return value
