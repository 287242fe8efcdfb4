"""One MCP server: how it is reached, and what of that is secret."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from toolbank.sources.mcp.command_line import show_command
from toolbank.system.secrets import find_secrets, hide, name_arguments, show_unseen
from toolbank.system.trust import Grant

SHORTEST = 4
"""Characters of a secret that is hidden; without shorter ones little of a text would be left."""


@dataclass(frozen=True)
class Server:
    """A server that is started by `command`, or asked at `url`.

    `name` is "" where only the server itself can tell. `environment` is what a command sees
    besides what programs need to run at all, and `folder` is where a file has it start. `grants` are the variables of this environment whose
    values are sent to the URL. `is_open`: where it stands in a recipe, which has no secrets.
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
    def line(self) -> str:
        """The command with its variables, as a shell takes it, and the hash of each secret."""
        words, variables = show_command(self.command, self.environment)
        return self._write(variables, words)

    @property
    def open_line(self) -> str:
        """The command with its variables, secrets and all: to compare, never to show."""
        return self._write(self.environment, self.command)

    def _write(self, variables: Mapping[str, str], command: Iterable[str]) -> str:
        place = f"cd {shlex.quote(show_unseen(self.folder))} && " if self.folder else ""
        words = [f"{name}={shlex.quote(variables[name])}" for name in sorted(variables)]
        return place + " ".join([*words, shlex.join(command)])

    def hide(self, text: str) -> str:
        """The text without anything secret of this server."""
        return hide(text, self._secrets, SHORTEST)

    def hide_in(self, value: Any) -> Any:
        """A JSON value without anything secret of this server in its texts and keys."""
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
            # The parts of an address are its secrets alone, and together with what is around them.
            given += [
                ("", self.url),
                ("", parts.username or ""),
                *parse_qsl(parts.query),
            ]
            given += [("password", parts.password or "")]
            given += name_arguments(self.command)
        for name, value in given:
            # "docker run -e TOKEN" names a variable.
            if value not in self.environment:
                yield from find_secrets(value, name)
