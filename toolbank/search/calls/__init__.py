"""Forward tool calls: the targets of each source, as configured by the operator of the server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    model_validator,
)

from toolbank.config.explain import first_problem
from toolbank.config.yaml import parse_mapping
from toolbank.sources.mcp.client_config import lists_servers, read_client_config
from toolbank.sources.mcp.settings import Server
from toolbank.system.errors import InputError
from toolbank.system.files import read_text
from toolbank.system.net import origin
from toolbank.system.secrets import find_secrets, hide, mask_command
from toolbank.system.terminal import print_message

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

    Or `entry`, a server as the file of an MCP client has it. `environment` maps variables of the command to variables here. `private` allows addresses that
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
    entry: InstanceOf[Server] | None = Field(default=None, repr=False)

    @property
    def place(self) -> str:
        """The address or the command, without secrets."""
        server = self.entry
        command = server.command if server else self.command
        if command:
            return " ".join(mask_command(command))
        if server:
            scheme, host, port = origin(server.url)
            return f"{scheme}://{host}:{port}"
        return self.url or self.mcp

    @property
    def key(self) -> str:
        """What tells this target from others of the file."""
        return repr((self.entry, self.model_dump()))

    @property
    def address(self) -> str:
        """The address of the API or server, which may have secrets; "" of a command."""
        return self.entry.url if self.entry else self.url or self.mcp

    def make_server(self) -> Server:
        """The MCP server, with the values of the variables.

        Raises:
            InputError: the variable of the credential is not set.
        """
        if self.entry:
            return self.entry
        given = {
            name: os.environ.get(one, "") for name, one in self.environment.items()
        }
        headers = self.credential.headers() if self.credential else {}
        return Server(
            "", self.command, given, url=self.mcp, headers=headers, is_open=True
        )

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
        if self.entry:
            return self.entry.hide(text)
        secrets = [
            secret
            for name, ours in self.environment.items()
            for given in (name, ours)
            for secret in find_secrets(os.environ.get(ours, "").strip(), given)
        ]
        if self.credential:
            secrets.append(os.environ.get(self.credential.variable, "").strip())
        return hide(text, list(filter(None, secrets)))

    def hide_in(self, value: Any) -> Any:
        """Hide the target's secrets in the texts of a JSON value."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_in(one) for one in value]
        if isinstance(value, dict):
            return {self.hide(key): self.hide_in(one) for key, one in value.items()}
        return value

    @model_validator(mode="after")
    def _names_one(self) -> Target:
        if sum(map(bool, (self.url, self.mcp, self.command, self.entry))) != 1:
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


def read_targets(paths: Iterable[Path]) -> dict[str, Target]:
    """Read the targets by the names of sources, from files of ours and of MCP clients.

    Raises:
        InputError: a file is unreadable, has invalid values, or names a source of another one.
    """
    found: dict[str, Target] = {}
    for path in paths:
        targets = _read_client_file(path) or _read_own_file(path)
        if twice := sorted(found.keys() & targets.keys()):
            raise InputError(
                f"{path}: {', '.join(twice)}: another file of --call-config has it, too. Keep one."
            )
        found |= targets
    return found


def _read_client_file(path: Path) -> dict[str, Target]:
    if not lists_servers(path):
        return {}
    config = read_client_config(path, None)
    for name, reason in (config.wrong | config.skipped).items():
        print_message(f"--call-config {path}: {name}: left out, since {reason}")
    return {server.name: Target(entry=server) for server in config.servers}


def _read_own_file(path: Path) -> dict[str, Target]:
    content: Any = parse_mapping(read_text(path), str(path))[0]
    try:
        return _Content.model_validate(content).sources
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}.") from error


class CallError(Exception):
    """A call failed; the message is for the model that called."""
