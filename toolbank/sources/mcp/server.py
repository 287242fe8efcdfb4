"""One MCP server: how it is reached, and what of that is secret."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from toolbank.sources.mcp.secret_values import (
    SHORTEST,
    find_passwords,
    is_secret,
    mask,
    mask_arguments,
    named_secret,
    secret_arguments,
)
from toolbank.system.secrets import hide
from toolbank.system.trust import Grant

# Of the environment, what changes which program runs, or what it loads and runs besides.
_STEERS = re.compile(
    r"(?:.*_)?(?:PATH|HOME)|SHELL|ENV|IFS|CLASSPATH|PYTHON.*|(?:LD|DYLD|BASH|XDG|GIT|DOCKER)_.*|.*_ASKPASS"
    r"|NODE_OPTIONS|(?:NPM|PNPM|YARN)_CONFIG_.*|(?:UV|PIP|BUN|DENO|BUNDLE)_.*"
    r"|RUBY(?:OPT|LIB)|PERL5(?:OPT|LIB)|.*JAVA.*_OPTIONS|DOTNET_STARTUP_HOOKS",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Server:
    """A server that is started by `command`, or asked at `url`.

    `name` is "" where only the server itself can tell. `environment` is what a command sees
    besides what programs need to run at all; `set_here` names those of it that a file sets, and
    `folder` is where the file has it start. `grants` are the variables of this environment whose
    values are sent to the URL. `is_open`: where it stands in a recipe, which has no secrets.
    """

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    set_here: tuple[str, ...] = ()
    folder: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    uses_sse: bool = False
    grants: tuple[Grant, ...] = ()
    is_open: bool = False

    @property
    def line(self) -> str:
        """The whole command, as a shell would take it.

        What a file sets is shown by its name, and with its value where that decides what is run.
        The arguments are shown as they are, even where one is a secret: who is asked whether it
        may be started has to see what is.
        """
        return self._write(self.command, str)

    @property
    def masked_line(self) -> str:
        """The command for where others may read it: without arguments that may be secrets."""
        if self.is_open:
            return self.line
        return self._write(tuple(mask_arguments(self.command)), mask)

    def _write(self, command: tuple[str, ...], shown: Callable[[str], str]) -> str:
        words = [
            f"{name}={shlex.quote(shown(self.environment[name]))}"
            if _STEERS.fullmatch(name) and not named_secret(name)
            else f"{name}=..."
            for name in self.set_here
        ]
        place = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
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
        # Of "Bearer TOKEN" the token.
        given += [(k, v.rpartition(" ")[2]) for k, v in self.headers.items()]
        if not self.is_open:
            parts = urlsplit(self.url)
            segments = (parts.username, parts.query, *parts.path.split("/"))
            given += [("", segment) for segment in segments if segment]
            given += [("password", parts.password or ""), *parse_qsl(parts.query)]
            given += secret_arguments(self.command)
        for name, value in given:
            # "docker run -e TOKEN" names a variable.
            if value not in self.environment and is_secret(name, value):
                yield value
            yield from find_passwords(value)
