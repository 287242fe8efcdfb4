"""Configuration of MCP servers as a source, and how each server is reached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, StringConstraints, field_validator, model_validator

from toolbank.config.base import Transport
from toolbank.sources.kind import SourceConfig
from toolbank.sources.mcp.command_line import hide_in_command
from toolbank.system.consent import Grant, GrantValue
from toolbank.system.secrets import (
    find_secret_words,
    find_secrets,
    hide,
    name_arguments,
)
from toolbank.system.terminal import one_line

_LONGEST_LABEL = 100

_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]


class McpSource(SourceConfig):
    """One MCP server that `command` starts, one at `url`, or those in the file of an MCP client (`config`).

    Tools are named server/tool, where server is the key in the file, else `name`, else the server's
    own name. A command starts only with the user's permission, without a shell, and sees only the
    basic environment and the variables of `env`.
    """

    type: Literal["mcp"] = "mcp"
    command: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="program and arguments of a server to start, such as [npx, -y, some-server]",
    )
    env: tuple[_Variable, ...] = Field(
        default=(),
        description="NAMES of environment variables that the command gets",
    )
    url: str | None = Field(
        default=None,
        description="URL of a server (streamable HTTP), such as https://HOST/mcp",
    )
    token_env: _Variable | None = Field(
        default=None,
        description="NAME of the environment variable with the bearer token for `url`",
    )
    headers: dict[_Header, _Variable] = Field(
        default={},
        description="headers for `url`; for each, the NAME of the environment variable that has its value",
    )
    config: Path | None = Field(
        default=None,
        description="the configuration file of an MCP client (JSON, YAML or TOML)",
    )
    servers: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="servers of `config` to read; default: all",
    )
    private_addresses: Transport[bool] = Field(
        default=False,
        description="allow a public host name that resolves to a private address",
    )
    timeout_s: Transport[float] = Field(
        default=60,
        gt=0,
        le=3600,
        description="seconds to start and list tools",
    )

    @field_validator("command")
    @classmethod
    def _check_command(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value[0].strip():
            raise ValueError("the first word is the program to start")
        if any("\0" in word for word in value or ()):
            raise ValueError("a command cannot contain NUL")
        if numbers := [str(one + 1) for one in find_secret_words(value or ())]:
            raise ValueError(
                f"a secret is in word {', '.join(numbers)}, and would be kept in files. If the "
                "server reads it from an environment variable, leave it out, set the variable in the "
                "shell, and name it in the recipe (`env: [NAME]`); else put the command into an MCP "
                "client's file (`config`), with the secret in its `env` or `args`"
            )
        return value

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        return value and _checked(value)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        given = [
            k for k in ("command", "url", "config") if getattr(self, k) is not None
        ]
        if len(given) != 1:
            raise ValueError("give one of `command`, `url` and `config`")
        belongs = ("env", "command"), ("token_env", "url"), ("headers", "url")
        for key, other in (*belongs, ("servers", "config")):
            if getattr(self, key) and other != given[0]:
                raise ValueError(f"`{key}` requires `{other}`")
        if self.token_env and any(h.lower() == "authorization" for h in self.headers):
            raise ValueError("give `token_env`, or Authorization in `headers`")
        return self

    @property
    def label(self) -> str:
        """The name in messages: name, file, URL or program."""
        file = self.config.name if self.config else ""
        called = self.name or file or self.url or _describe_command(self.command or ())
        # Without the folder: a bank has the same bytes on every machine.
        return f"mcp:{re.sub(r'[^ -~]', '?', called)[:_LONGEST_LABEL]}"

    @property
    def place(self) -> Path | str:
        """The file, the URL or the command."""
        return self.config or self.url or "\0".join(self.command or ())

    @property
    def api_name(self) -> str:
        """The name, if any."""
        return self.name or ""


def _describe_command(command: tuple[str, ...]) -> str:
    """The program, and its first argument that is no option: "npx some-server"."""
    first = next((word for word in command[1:] if not word.startswith("-")), "")
    names = (word.replace("\\", "/").rpartition("/")[2] for word in (command[0], first))
    return " ".join(filter(None, names))


def is_address(url: str) -> bool:
    """Whether a URL has a host, and http or https as its scheme."""
    try:
        parts = urlsplit(url)
        is_sound = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_sound and parts.scheme in ("http", "https") and url.isprintable()


def _checked(url: str) -> str:
    if any(sign in url for sign in "@?#"):
        raise ValueError(
            "the address has a user name, password, query or fragment, which may be a secret. Send "
            "a token with `token_env`, or put the address into an MCP client's file (`config`)"
        )
    if " " in url or not is_address(url):
        raise ValueError(
            f"{url!r} is not the address of a server; give one such as https://HOST/mcp"
        )
    return url


SHORTEST = 4
"""Characters of the shortest secret that is hidden; shorter ones occur in most texts."""


@dataclass(frozen=True)
class Server:
    """A server that is started by `command`, or reached at `url`.

    Attributes:
        name: "" if only the server knows it.
        environment: variables of the command besides the basic ones.
        folder: the working directory of the command, or "".
        grants: the variables of this environment whose values are sent to the URL.
        is_open: whether it is from a recipe, which has no secrets.
    """

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    uses_sse: bool = False
    grants: tuple[Grant, ...] = ()
    is_open: bool = False

    @property
    def grant_to_start(self) -> Grant:
        """The permission that is needed to start the command."""
        words, variables = hide_in_command(self.command, self.environment)
        folder = [("--chdir", GrantValue(self.folder))] if self.folder else []
        return Grant("start", words, (*folder, *variables))

    def hide(self, text: str) -> str:
        """Hide the secrets of this server in a text."""
        return hide(text, self._secrets, SHORTEST)

    def quote(self, text: str, most: int) -> str:
        """Quote a text in one line of at most so many characters, without the server's secrets."""
        return one_line(self.hide(text), most)

    def hide_in(self, value: Any) -> Any:
        """Hide the secrets of this server in the texts and keys of a JSON value."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_in(one) for one in value]
        if isinstance(value, dict):
            return {self.hide(key): self.hide_in(one) for key, one in value.items()}
        return value

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._find_secrets()))

    def _find_secrets(self) -> Iterator[str]:
        given = [*self.environment.items(), *self.headers.items()]
        if not self.is_open:
            parts = urlsplit(self.url)
            # The parts of an address are secret alone and together.
            given += [("", self.url), ("", parts.username or "")]
            given += [*parse_qsl(parts.query), ("password", parts.password or "")]
            given += name_arguments(self.command)
        for name, value in given:
            # In "docker run -e TOKEN", the value is the name of a variable.
            if value not in self.environment:
                yield from find_secrets(value, name)
