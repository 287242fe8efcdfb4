"""Read the file in which a client, such as Claude, Cursor or VS Code, lists MCP servers."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolbank.sources.document_parser import parse_document
from toolbank.sources.mcp.settings import Server, is_address
from toolbank.system.consent import grant_to_send
from toolbank.system.errors import InputError
from toolbank.system.files import parse_json, read_text
from toolbank.system.terminal import one_line

_EXAMPLE = '{"mcpServers": {"files": {"command": "npx", "args": ["some-server"]}}}'
_LONGEST_NAME = 100
_COMMANDS = ("stdio", "local")
_STREAMABLE = ("http", "streamable-http", "streamableHttp", "streamable_http", "remote")
_BUILT_IN = ("builtin", "platform", "frontend", "inline_python", "extension")
_REFERENCE = re.compile(
    r"\$\{\{([^{}]*)\}\}|\$\{([^{}]*)\}|\{((?:env|file):[^{}]*)\}|^\$([A-Z_][A-Z0-9_]*)$"
)
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
# Editors write JSON with comments. Strings are matched first: they may contain the same characters.
_STRING = r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
# Variables of editors, written like environment variables.
_OF_EDITORS = re.compile(r"input:.*|command:.*|config:.*|workspace.*|file.*|selected.*")
# Other names of a key, in Goose, opencode, Codex, Windsurf, Gemini CLI and Zed.
_ALIASES = {
    **dict.fromkeys(("cmd", "path"), "command"),
    **dict.fromkeys(("envs", "environment"), "env"),
    **dict.fromkeys(("uri", "serverUrl", "httpUrl"), "url"),
    "http_headers": "headers",
}
# Objects in which clients hold a part of an entry.
_HOLDERS = ("command", "transport", "config", "requestOptions")
_MARKS = frozenset(
    ("command", "cmd", "url", "uri", "serverUrl", "httpUrl", "enabled", "disabled")
)
_UNREAD = ("envFile", "env_file", "headersHelper", "apiKey", "auth", "oauth")


class _EntryError(ValueError):
    """The entry of a server is wrong; the message repeats nothing of it."""


@dataclass
class ClientConfig:
    """The servers of a file, and by name the errors of wrong entries, and why others are skipped.

    `notes` name the keys of servers that are not read.
    """

    servers: list[Server] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def list_names(path: Path, requested: tuple[str, ...] | None) -> list[str]:
    """List the names of the servers of a file, or of the requested ones, sorted.

    Raises:
        InputError: as `read_client_config`.
    """
    return sorted(_read_entries(path, requested))


def lists_servers(path: Path) -> bool:
    """Whether a file has servers, or the key that most clients use for them.

    Raises:
        InputError: it can't be read.
    """
    data = _read_file(path)
    return "mcpServers" in data or any(True for _ in _find_entries(data))


def read_client_config(path: Path, requested: tuple[str, ...] | None) -> ClientConfig:
    """Read the servers of a client's file (JSON, YAML or TOML), or the requested ones.

    Comments and trailing commas are allowed. `${NAME}`, `${env:NAME}` and `${NAME:-default}` are
    environment variables, as are `{env:NAME}` and a whole `$NAME`; `${userHome}` is the home
    folder. The content is secret: no message repeats it.

    Raises:
        InputError: it can't be read, has no servers, or lacks a requested server.
    """
    found = ClientConfig()
    for name, entry in _read_entries(path, requested).items():
        try:
            if not isinstance(entry, dict):
                raise _EntryError("its entry is not a JSON object")
            entry = _write_plainly(entry)
            is_off = entry.get("disabled") is True or entry.get("enabled") is False
            if is_off and requested is None:
                found.skipped[name] = "is disabled in the file"
            elif not entry.get("command") and _kind(entry) in _BUILT_IN:
                found.skipped[name] = "is a part of the client"
            else:
                found.servers.append(_read_server(name, entry))
                keys = ", ".join(key for key in _UNREAD if entry.get(key))
                found.notes += [f"{name}: not read: {keys}"] if keys else []
        except _EntryError as error:
            found.wrong[name] = str(error)
    return found


def _read_entries(path: Path, requested: tuple[str, ...] | None) -> dict[str, Any]:
    named: dict[str, Any] = {}
    alike: dict[str, list[Any]] = {}
    for key, entry in _find_entries(_read_file(path)):
        name = one_line(key, _LONGEST_NAME)
        # Projects of one user may have the same server.
        if entry not in alike.setdefault(name, []):
            alike[name].append(entry)
            named[_new_name(name, named)] = entry
    if not named:
        raise InputError(
            f"{path}: there are no MCP servers in it. Write it like {_EXAMPLE}."
        )
    if requested is None:
        return named
    if missing := [name for name in requested if name not in named]:
        raise InputError(
            f"{path}: there is no server {', '.join(map(repr, missing))}. Choose from: "
            f"{', '.join(sorted(named))}."
        )
    return {name: named[name] for name in dict.fromkeys(requested)}


def _read_file(path: Path) -> dict[str, Any]:
    """Read the object of a file; no message repeats its content."""
    text = read_text(path)
    if path.suffix.lower() == ".toml":
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            line = re.search(r"line \d+", str(error))
            place = f", {line[0]}" if line else ""
            raise InputError(f"{path}{place}: not valid TOML. Repair it.") from error
    if path.suffix.lower() in (".yaml", ".yml"):
        try:
            data, _ = parse_document(text.encode(), "")
        except InputError as error:
            place = str(error).partition(":")[0]
            raise InputError(f"{path}{place}: not valid YAML. Repair it.") from error
    else:
        for no_json in (_COMMENT, _LAST_COMMA):
            text = no_json.sub(lambda found: found[1] or " ", text)
        data = parse_json(text, path)
    return data if isinstance(data, dict) else {}


def _find_entries(data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The names and entries of the servers, at the first key that a client uses for them.

    - `mcpServers`: Claude, Cursor, Windsurf, Gemini CLI; a list: Continue
    - `servers`, or `mcp.servers`: VS Code
    - `context_servers`: Zed; `mcp_servers`: Codex; `mcp`: opencode; `extensions`: Goose
    - `projects.PATH.mcpServers`: Claude Code, in addition
    """
    mcp, former = _object(data, "mcp"), _object(data, "experimental")
    places = [
        *(data.get(key) for key in ("mcpServers", "context_servers", "mcp_servers")),
        *(_choice(data, "servers"), mcp.get("servers"), _choice(data, "mcp")),
        *(_choice(data, "extensions"), former.get("modelContextProtocolServers")),
    ]
    first = next((one for one in places if isinstance(one, dict | list) and one), {})
    # Gemini CLI, now and in its first versions.
    excluded = [mcp.get("excluded"), data.get("excludeMCPServers")]
    allowed = [mcp.get("allowed"), data.get("allowMCPServers")]
    yield from _name_entries(first, excluded, allowed)
    for project in _object(data, "projects").values():
        if isinstance(project, dict):
            off = project.get("disabledMcpServers")
            yield from _name_entries(project.get("mcpServers"), [off], [])


def _object(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _choice(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The servers at a key that other files use for other things."""
    entries = _object(data, key)
    is_other = data.keys() & {"asyncapi", "openapi", "swagger"}
    inner = (one for one in entries.values() if isinstance(one, dict))
    return {} if is_other or not any(one.keys() & _MARKS for one in inner) else entries


def _name_entries(
    entries: Any, disabled: list[Any], enabled: list[Any]
) -> Iterator[tuple[str, Any]]:
    """Names and entries; lists, of which not all may be there, tell which are disabled."""
    if isinstance(entries, list):
        named = [one.get("name") if isinstance(one, dict) else "" for one in entries]
        names = [str(name or f"server {n}") for n, name in enumerate(named, 1)]
        pairs = [*zip(names, entries, strict=True)]
    else:
        pairs = [*entries.items()] if isinstance(entries, dict) else []
    for name, entry in pairs:
        is_off = any(isinstance(one, list) and name in one for one in disabled)
        is_off |= any(isinstance(one, list) and name not in one for one in enabled)
        if is_off and isinstance(entry, dict):
            entry = {**entry, "disabled": True}
        yield name, entry


def _write_plainly(entry: dict[str, Any]) -> dict[str, Any]:
    """Write an entry with the keys of `mcpServers`."""
    held = [key for key in _HOLDERS if isinstance(entry.get(key), dict)]
    flat = {key: one for key, one in entry.items() if key not in held}
    for key in held:
        flat |= entry[key]
    plain = {key: one for key, one in flat.items() if key not in _ALIASES}
    for key, name in _ALIASES.items():
        if flat.get(key) and not plain.get(name):
            plain[name] = flat[key]
    env, headers = _mapping(plain, "env"), _mapping(plain, "headers")
    for listed in (plain.get("env_keys"), plain.get("env_vars")):
        for one in listed if isinstance(listed, list) else ():
            variable = one.get("name") if isinstance(one, dict) else one
            env.setdefault(str(variable), f"${{{variable}}}")
    for header, variable in _mapping(plain, "env_http_headers").items():
        headers[header] = f"${{{variable}}}"
    if token := plain.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return {**plain, "env": env, "headers": headers}


def _kind(entry: Mapping[str, Any]) -> Any:
    kind = entry.get("type") or entry.get("transport")
    is_extension = kind is None and not entry.get("url") and "settings" in entry
    return "extension" if is_extension else kind


def _new_name(name: str, taken: Collection[str]) -> str:
    """Add a number to a name that is taken."""
    names = (f"{name} ({number})" for number in itertools.count(2))
    return next(n for n in itertools.chain((name,), names) if n not in taken)


def _read_server(name: str, entry: Mapping[str, Any]) -> Server:
    """Read the entry of a server.

    Raises:
        _EntryError: the entry is wrong.
    """
    kind, url = _kind(entry), entry.get("url")
    if kind in _COMMANDS or (entry.get("command") and not url):
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
        inner = next(filter(None, match.groups()), "").strip()
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
    return dict(value)
