"""Pass a call of a tool on to whose tool it is: where the calls of each source go, as the person who runs the server wrote it down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolbank.config.explain import first_problem
from toolbank.config.yaml import parse_mapping
from toolbank.system.errors import InputError
from toolbank.system.files import read_text
from toolbank.system.secrets import find_secrets, hide

_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Credential(_Strict):
    """A secret, by the name of the environment variable that holds it, and how it is sent."""

    variable: Annotated[str, Field(min_length=1)]
    header: Annotated[str, Field(pattern=_HEADER)] = "Authorization"
    prefix: str = "Bearer "

    def headers(self) -> dict[str, str]:
        """The header that carries it.

        Raises:
            InputError: the variable is not set, or can't be sent.
        """
        value = os.environ.get(self.variable, "")
        if not value.strip() or not value.isprintable():
            raise InputError(
                f"{self.variable}: not set, or holds what a header can't. Set it before the "
                "server is started."
            )
        return {self.header: self.prefix + value.strip()}


class Target(_Strict):
    """Where calls of a source go: `url` of an HTTP API, `mcp` or `command` of an MCP server.

    `environment` has variables of the command, each by the one here whose value it has. `private`
    lets calls go to addresses that are not public, such as 127.0.0.1 or 10.0.0.7. `read_only` are
    the tools of an MCP server that change nothing, as it calls them; patterns such as get_* are
    taken, too.
    """

    url: str = ""
    mcp: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    credential: Credential | None = None
    private: bool = False
    read_only: tuple[str, ...] = ()

    def unset(self) -> list[str]:
        """The environment variables that it takes and that are not set."""
        return [name for name, value in self._taken().items() if not value]

    def hide(self, text: str) -> str:
        """The text without what it takes from the environment, which a server may have echoed.

        What has fewer than eight signs stays: it can't be told from a word; and so does what a
        command is given that is no secret, such as a time zone.
        """
        secrets = [
            secret
            for name, ours in self.environment.items()
            for given in (name, ours)
            for secret in find_secrets(os.environ.get(ours, "").strip(), given)
        ]
        if self.credential:
            secrets.append(os.environ.get(self.credential.variable, "").strip())
        return hide(text, list(filter(None, secrets)))

    def _taken(self) -> dict[str, str]:
        names = list(self.environment.values())
        if self.credential:
            names.append(self.credential.variable)
        return {name: os.environ.get(name, "").strip() for name in names}

    @model_validator(mode="after")
    def _names_one(self) -> Target:
        if sum(map(bool, (self.url, self.mcp, self.command))) != 1:
            raise ValueError("give one of `url`, `mcp` and `command`")
        address = self.url or self.mcp
        if address:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{address} is no http or https address")
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError(
                    "the address holds a user, a query or a fragment; a secret goes into "
                    "`credential`"
                )
        if self.read_only and self.url:
            raise ValueError("`read_only` is of an MCP server; an API has GET and HEAD")
        if self.environment and not self.command:
            raise ValueError("`environment` is of a `command`")
        if self.credential and self.command:
            raise ValueError(
                "`credential` is of an address; a command has `environment`"
            )
        return self


class _Content(_Strict):
    sources: dict[str, Target]


def read_targets(path: Path) -> dict[str, Target]:
    """Where calls go, by the names of sources.

    Raises:
        InputError: the file can't be read, is no YAML, or says what can't be.
    """
    content: Any = parse_mapping(read_text(path), str(path))[0]
    try:
        return _Content.model_validate(content).sources
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}.") from error


class CallError(Exception):
    """What was wrong, in words for the model that called."""
