"""A client's own file of MCP servers, as Claude, Cursor and VS Code have one."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolbank.sources.mcp.settings import Server
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
# Editors write JSON with comments; a string is matched first, so that none is looked for in it.
_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
# Known to editors only, though written as a variable of the environment is.
_OF_EDITORS = re.compile(r"input:.*|command:.*|config:.*|workspace.*|file.*|selected.*")


class _EntryError(ValueError):
    """What is wrong with the entry of a server, without what it says."""


@dataclass
class ClientConfig:
    """The servers of a file; `wrong` says of others why they can't be had, by their names.

    `disabled` are those that the file has switched off.
    """

    servers: list[Server] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    disabled: list[str] = field(default_factory=list)


def list_names(path: Path, wanted: tuple[str, ...] | None) -> list[str]:
    """The names of the servers of a file, or those that are wanted of them, sorted.

    Raises:
        InputError: as `read_client_config`.
    """
    return sorted(_read_entries(path, wanted))


def read_client_config(path: Path, wanted: tuple[str, ...] | None) -> ClientConfig:
    """Read a file with `mcpServers` or `servers`; of the entries only those that are wanted.

    Comments and commas before a closing bracket are passed over, as editors do.

    `${NAME}`, `${env:NAME}` and `${NAME:-default}` stand for variables of the environment,
    `${userHome}` for the home folder. What the file says is secret, and no message repeats it.

    Raises:
        InputError: it can't be read, has no servers, or none of a wanted name.
    """
    found = ClientConfig()
    for name, entry in _read_entries(path, wanted).items():
        try:
            if not isinstance(entry, dict):
                raise _EntryError("its entry is no JSON object")
            if entry.get("disabled") is True and wanted is None:
                found.disabled.append(name)
            else:
                found.servers.append(_read_server(name, entry))
        except _EntryError as error:
            found.wrong[name] = str(error)
    return found


def _read_entries(path: Path, wanted: tuple[str, ...] | None) -> dict[str, Any]:
    text = read_text(path)
    for no_json in (_COMMENT, _LAST_COMMA):
        text = no_json.sub(lambda found: found[1] or " ", text)
    data = parse_json(text, path)
    data = data if isinstance(data, dict) else {}
    inner = data.get("mcp")
    places = (
        data.get("mcpServers"),
        data.get("servers"),
        inner.get("servers") if isinstance(inner, dict) else None,
    )
    entries = next(
        (place for place in places if isinstance(place, dict) and place), None
    )
    if entries is None:
        raise InputError(
            f"{path}: there are no MCP servers in it. It should look like {_EXAMPLE}."
        )
    named: dict[str, Any] = {}
    for key, entry in entries.items():
        named[_new_name(one_line(key, _LONGEST_NAME), named)] = entry
    if wanted is None:
        return named
    if missing := [name for name in wanted if name not in named]:
        raise InputError(
            f"{path}: there is no server {', '.join(map(repr, missing))} in it. There are: "
            f"{', '.join(sorted(named))}."
        )
    return {name: named[name] for name in dict.fromkeys(wanted)}


def _new_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it where another key looks the same on a line."""
    names = (f"{name} ({number})" for number in itertools.count(2))
    return next(n for n in itertools.chain((name,), names) if n not in taken)


def _read_server(name: str, entry: Mapping[str, Any]) -> Server:
    """A server from its entry.

    Raises:
        _EntryError: what is wrong with it.
    """
    kind = entry.get("type") or entry.get("transport")
    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    if kind == "stdio" or (entry.get("command") and not url):
        return _read_command(name, entry)
    if not url:
        raise _EntryError("it has neither `command` nor `url`")
    if kind not in (None, "sse", *_STREAMABLE):
        raise _EntryError("its type is none of stdio, http and sse")
    return _read_address(name, entry, url, kind == "sse")


def _read_command(name: str, entry: Mapping[str, Any]) -> Server:
    command, args = entry.get("command"), entry.get("args") or []
    words = [
        *(command if isinstance(command, list) else [command]),
        *_list(args, "args"),
    ]
    environment = _mapping(entry, "env")
    expanded = [_expand(word, "command", os.environ.get) for word in words]
    if not (expanded and expanded[0].strip()):
        raise _EntryError("its command is empty")
    return Server(
        name,
        tuple(expanded),
        {
            key: _expand(v, f"env.{key}", os.environ.get)
            for key, v in environment.items()
        },
        _find_folder(entry.get("cwd")),
    )


def _find_folder(folder: Any) -> str:
    if not folder:
        return ""
    try:
        return str(Path(_expand(folder, "cwd", os.environ.get)).expanduser())
    except RuntimeError as error:
        raise _EntryError("cwd is in the home of a user who is not here") from error


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
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not (valid and address.isprintable()):
        raise _EntryError("its url is no http or https address")
    for key, value in headers.items():
        if not (key.isascii() and value.isascii() and f"{key}{value}".isprintable()):
            raise _EntryError(f"headers.{key} has a sign that no header has")
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        grants = tuple(
            grant_to_send(variable, place, "url") for variable in dict.fromkeys(sent)
        )
    except InputError as error:
        raise _EntryError(
            "its url is no address that a token can be sent to"
        ) from error
    return Server(name, url=address, headers=headers, uses_sse=uses_sse, grants=grants)


def _expand(text: Any, key: str, look_up: Callable[[str], str | None]) -> str:
    """The text with the references to variables in it replaced."""
    if isinstance(text, bool | int | float):
        text = str(text).lower() if isinstance(text, bool) else str(text)
    if not isinstance(text, str) or "\0" in text:
        raise _EntryError(f"{key} is no text")

    def replace(match: re.Match[str]) -> str:
        inner = match[1]
        if inner == "userHome":
            return str(Path.home())
        variable = _VARIABLE.fullmatch(inner)
        if _OF_EDITORS.fullmatch(inner) or not variable:
            raise _EntryError(
                f"{key} has a ${{{inner.partition(':')[0]}...}} in it that only its editor can "
                "fill in; name a variable of the environment instead, as ${env:NAME}"
            )
        value = look_up(variable[1])
        if value is None:
            value = variable[2]
        if value is None:
            raise _EntryError(
                f"{key} names the environment variable {variable[1]}, which is not set"
            )
        return value

    return _REFERENCE.sub(replace, text)


def _mapping(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key) or {}
    if not isinstance(value, dict) or not all(
        name and "=" not in name and name.isprintable() for name in value
    ):
        raise _EntryError(f"{key} is no object of names and texts")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise _EntryError(f"{key} is no list")
    return value
