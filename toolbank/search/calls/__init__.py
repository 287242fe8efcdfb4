"""Forward tool calls: the targets of each source, as configured by the operator of the server."""

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
    """A secret in an environment variable, and how it is sent."""

    variable: Annotated[str, Field(min_length=1)]
    header: Annotated[str, Field(pattern=_HEADER)] = "Authorization"
    prefix: str = "Bearer "

    def headers(self) -> dict[str, str]:
        """Make the header with the secret.

        Raises:
            InputError: the variable is not set, or can't be sent in a header.
        """
        value = os.environ.get(self.variable, "")
        if not value.strip() or not value.isprintable():
            raise InputError(
                f"{self.variable}: not set, or has characters that a header cannot have. Set it "
                "before you start the server."
            )
        return {self.header: self.prefix + value.strip()}


class Target(_Strict):
    """Where calls of a source go: `url` of an HTTP API, `mcp` or `command` of an MCP server.

    `environment` maps variables of the command to variables here. `private` allows addresses that
    are not public, such as 127.0.0.1 or 10.0.0.7. `read_only` are names or patterns, such as get_*,
    of tools of an MCP server that change nothing.
    """

    url: str = ""
    mcp: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    credential: Credential | None = None
    private: bool = False
    read_only: tuple[str, ...] = ()

    def unset(self) -> list[str]:
        """List the environment variables that it needs and that are not set."""
        names = list(self.environment.values())
        if self.credential:
            names.append(self.credential.variable)
        return [name for name in names if not os.environ.get(name, "").strip()]

    def hide(self, text: str) -> str:
        """Hide the target's secrets in a text that a server may have echoed.

        Values of fewer than eight characters stay, since they look like words, and so do variables
        that are not secrets, such as a time zone.
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

    @model_validator(mode="after")
    def _names_one(self) -> Target:
        if sum(map(bool, (self.url, self.mcp, self.command))) != 1:
            raise ValueError("give one of `url`, `mcp` and `command`")
        address = self.url or self.mcp
        if address:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{address} is not an http or https address")
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError(
                    "the address has a user, a query or a fragment; put a secret into "
                    "`credential`"
                )
        for key, kinds in (
            ("read_only", ("mcp", "command")),
            ("environment", ("command",)),
            ("credential", ("url", "mcp")),
        ):
            if getattr(self, key) and not any(getattr(self, kind) for kind in kinds):
                raise ValueError(f"`{key}` is only for {' or '.join(kinds)}")
        return self


class _Content(_Strict):
    sources: dict[str, Target]


def read_targets(path: Path) -> dict[str, Target]:
    """Read the targets by the names of sources.

    Raises:
        InputError: the file is unreadable, not YAML, or has invalid values.
    """
    content: Any = parse_mapping(read_text(path), str(path))[0]
    try:
        return _Content.model_validate(content).sources
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}.") from error


class CallError(Exception):
    """A call failed; the message is for the model that called."""
