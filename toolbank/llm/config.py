"""Configuration of the engines, and the credentials that they read from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from toolbank.config.base import PATH_IN_RUN, Config, Transport, UnionChoice
from toolbank.system.consent import (
    DEFAULT_KEY,
    Grant,
    explain_missing,
    grant_to_send,
    is_granted,
    require_consent,
)
from toolbank.system.errors import InputError
from toolbank.system.net import is_loopback, is_private
from toolbank.system.secrets import find_secrets, hide, named_secret

if TYPE_CHECKING:
    from toolbank.llm.chat import ChatReply


_VARIABLE = r"^[A-Z_][A-Z0-9_]*$"
_Variable = Annotated[str, Field(pattern=_VARIABLE)]
_HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_QueryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
# Those that requests have anyway.
_OWN_HEADERS = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "content-type", "host"),
        *("transfer-encoding",),
    }
)

ENGINE_NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"

MOST_AUTO = 1024


class Price(Config):
    """What a million tokens cost, in US dollars."""

    input: float = Field(ge=0, description="of the prompts")
    output: float = Field(ge=0, description="of the replies")


class BudgetConfig(Config):
    """Where a stage ends with what there is. All but `minutes` count over the run's folder."""

    calls: int | None = Field(default=None, ge=1, description="requests sent")
    tokens: int | None = Field(default=None, ge=1, description="in and out")
    dollars: float | None = Field(default=None, gt=0, description="needs `price`")
    minutes: float | None = Field(default=None, gt=0, description="of one command")


DEFAULT_TIMEOUT_S = 120.0
"""How long a try may take where neither a recipe nor the kind of engine says."""


class EngineConfig(Config):
    """What it takes to reach a model. The key itself is read from the environment.

    How a call is made, retried, bounded and paid shapes nothing of what comes back.
    """

    # The part of a recipe that this is, for messages, and the steps of its calls in a journal.
    section: ClassVar[str]
    call_steps: ClassVar[tuple[str, ...]]
    # Whether `engine: rules` means that rules do it, without an engine.
    by_rules: ClassVar[bool] = False

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, or one that a package brings",
    )
    base_url: Transport[str] = Field(
        default="https://api.openai.com/v1",
        pattern=r"^https?://[^@?#\s\x00-\x1f\x7f]+$",
        description="of an OpenAI-compatible endpoint; no key or password in it",
    )
    model: str = Field(default="", description="as the endpoint names it")
    api_key_env: Transport[_Variable | None] = Field(
        default=DEFAULT_KEY,
        description="NAME of the environment variable that holds the key; null: none is sent",
    )
    headers: Transport[dict[_HeaderName, _Variable]] = Field(
        default={},
        description="further headers, each with the NAME of the environment variable that holds "
        "its value, such as api-key: AZURE_OPENAI_API_KEY",
    )
    url_query: Transport[dict[_QueryName, str]] = Field(
        default={},
        description="of each request's address, such as api-version: '2024-10-21'; no secret",
    )
    temperature: float | None = Field(
        default=0.9, ge=0, le=2, description="null: not sent"
    )
    max_tokens: int = Field(default=4096, ge=1, description="of a reply")
    parameters: dict[str, JsonValue] = Field(
        default={}, description="any further sampling parameter, such as top_p: 0.95"
    )
    options: dict[str, JsonValue] = Field(
        default={},
        description="of the engine itself, such as tensor_parallel_size: 2 of vllm",
    )
    price: Transport[
        Annotated[
            Price | Path,
            UnionChoice("should be a mapping of keys, or the path of a file"),
        ]
        | None
    ] = Field(
        default=None,
        description="dollars a million tokens, or a YAML file of prices by model",
    )
    timeout: Transport[float | None] = Field(
        default=None,
        gt=0,
        description="seconds a try may take; unset: 120, and no limit for vllm",
    )
    total_timeout: Transport[float] = Field(
        default=900, gt=0, description="seconds a call may take with all its tries"
    )
    retries: Transport[int] = Field(
        default=5, ge=0, description="further tries of a failed call"
    )
    executor: Transport[Literal["local", "ray"]] = Field(
        default="local",
        description="where calls are made. local: in this process; ray: in workers of a cluster",
    )
    workers: Transport[int] = Field(
        default=1, ge=1, le=4096, description="of `executor: ray`, a process each"
    )
    concurrency: Transport[
        Annotated[
            Literal["auto"] | Annotated[int, Field(ge=1, le=4096)],
            UnionChoice("should be a whole number, or 'auto'"),
        ]
    ] = Field(
        default="auto",
        description="most calls in flight; auto: as many as the endpoint takes",
    )
    rpm: Transport[int | None] = Field(
        default=None, ge=1, description="most calls a minute"
    )
    tpm: Transport[int | None] = Field(
        default=None, ge=1, description="most tokens a minute"
    )
    max_outage: Transport[float] = Field(
        default=600,
        ge=0,
        description="seconds that an endpoint may be down before the run stops",
    )
    budget: Transport[BudgetConfig] = BudgetConfig()

    @property
    def most_in_flight(self) -> int:
        """The most calls that may ever be in flight."""
        return MOST_AUTO if self.concurrency == "auto" else self.concurrency

    @model_validator(mode="after")
    def _have_workers_a_cluster(self) -> Self:
        if self.workers > 1 and self.executor == "local":
            raise ValueError(
                f"workers: {self.workers} is for `executor: ray`; add that, or leave workers out"
            )
        return self

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _check_name(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_VARIABLE, value):
            raise ValueError(
                "should be the NAME of an environment variable in capitals, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        return value

    @field_validator("headers", mode="before")
    @classmethod
    def _check_headers(cls, value: Any) -> Any:
        for name, variable in value.items() if isinstance(value, dict) else ():
            lower = str(name).lower()
            if lower == "authorization":
                raise ValueError("Authorization is sent where `api_key_env` is set")
            if lower in _OWN_HEADERS:
                raise ValueError(f"{name} is set by what is sent")
            if not (isinstance(variable, str) and re.fullmatch(_VARIABLE, variable)):
                raise ValueError(
                    f"{name} should be the NAME of the environment variable that holds its value, "
                    "in capitals, and never the value itself"
                )
        return value

    @field_validator("url_query")
    @classmethod
    def _check_query(cls, value: dict[str, str]) -> dict[str, str]:
        for name, given in value.items():
            # By `code`, functions of Azure take their key.
            if (
                name.lower() == "code"
                or named_secret(name)
                or find_secrets(given, name)
            ):
                raise ValueError(
                    f"{name} looks like a secret, which has no place in a recipe; send it by "
                    "`headers`, or by `api_key_env`"
                )
        return value

    @field_validator("budget")
    @classmethod
    def _check_dollars(cls, value: BudgetConfig, info: ValidationInfo) -> BudgetConfig:
        if value.dollars is not None and info.data.get("price", ...) is None:
            raise ValueError(
                "dollars can't be counted without a price; set `price`, dollars a million "
                "tokens, such as price: {input: 0.15, output: 0.6}"
            )
        return value


class SearchModelConfig(EngineConfig):
    """A model that a search asks; every reply is kept in a journal of its own."""

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, or one that a package brings",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    replies: Path = Field(
        description="journal of the replies in the run folder, such as replies.sqlite; nothing is "
        "asked for twice",
        json_schema_extra=PATH_IN_RUN,
    )
    _earlier: Path | None = PrivateAttr(None)

    @property
    def known_replies(self) -> Path:
        """The journal to read: where an earlier version kept it, until it is in the run folder."""
        if self._earlier is not None and not self.replies.exists():
            return self._earlier
        return self.replies

    def keep_replies(self, replies: Path, earlier: Path | None = None) -> Self:
        """These settings with another journal; replies of the `earlier` one belong in it."""
        kept = self.model_copy(update={"replies": replies})
        kept._earlier = earlier
        return kept


Part = TypeVar("Part", bound=Config)


def change_search_models(part: Part, change: Callable[[Any], Any]) -> Part:
    """A part of a recipe with the models changed that its searches ask."""
    if isinstance(part, SearchModelConfig):
        changed_part: Part = change(part)
        return changed_part
    changed = {
        key: change(value)
        for key, value in part
        if isinstance(value, SearchModelConfig)
    }
    return part.model_copy(update=changed) if changed else part


# Sent to servers that need no key.
NO_KEY = "none"
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Credentials:
    """What is sent with each request to an endpoint so that it answers.

    `headers` holds the key as a bearer token, and headers of the user's own. `withheld` says why
    a key that is there is not sent, and what to do; "" where none is held back.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    withheld: str = ""

    def hide(self, text: str) -> str:
        """The text without any of the secrets, as `hide` has it."""
        return hide(text, self.secrets)


def read_credentials(config: EngineConfig) -> Credentials:
    """The secrets of the environment variables that the recipe names; the user has named the host.

    Raises:
        InputError: a public endpoint's key or a header's value is not set, holds what none does,
            or may not go to this host.
    """
    require_consent(find_grants(config), config.section)
    headers: dict[str, str] = {}
    for name, variable in config.headers.items():
        if not (value := _value(variable)):
            raise InputError(
                f"{config.section}.headers: {name} is the value of {variable}, and this "
                f"environment variable is not set. Run `export {variable}=...`."
            )
        headers[name] = value
    withheld = ""
    if bearer := config.api_key_env:
        key = _value(bearer)
        if key and _is_withheld(config):
            withheld = (
                f" The key in {bearer} was not sent: any program on this machine may listen "
                f"there, and you have not allowed it. {explain_missing([_grant(config, bearer)], config.section)}"
            )
            key = ""
        if not key and not is_private(config.base_url) and not headers:
            raise InputError(
                f"{bearer}: this environment variable is not set, and "
                f"{config.base_url} needs a key. Run `export {bearer}=...`, or name another "
                "variable with api_key_env, or use an engine that needs none (recorded, rules)."
            )
        if key or not headers:
            headers["Authorization"] = f"Bearer {key or NO_KEY}"
    return Credentials(headers, find_engine_secrets(config), withheld)


def find_grants(config: EngineConfig) -> tuple[Grant, ...]:
    """What the user has to have named before a request is sent; nothing where there is no secret.

    Raises:
        InputError: the base URL has no host that could be told from others.
    """
    # The default key is what is there by chance, and a server of one's own seldom wants it.
    return tuple(
        _grant(config, variable)
        for variable in _variables(config)
        if os.environ.get(variable, "").strip()
        and not (variable == config.api_key_env and _is_withheld(config))
    )


def find_engine_secrets(config: EngineConfig) -> tuple[str, ...]:
    """The values of all variables that a configuration names, as far as they are set."""
    return read_values(_variables(config))


def read_values(variables: Iterable[str]) -> tuple[str, ...]:
    """The values of environment variables, each once, as far as they are set."""
    values = (os.environ.get(variable, "").strip() for variable in variables)
    return tuple(dict.fromkeys(filter(None, values)))


def hide_in_reply(reply: ChatReply, secrets: Sequence[str]) -> ChatReply:
    """A reply without a token that the endpoint was sent and has echoed, in text or model.

    Other values that are sent are words, titles and addresses (`not-needed`, X-Title,
    HTTP-Referer), which a model may write by itself, and replies make the bank: that is not to
    depend on the environment. So what is hidden is what nobody writes by chance: 16 characters
    or more in one piece, with letters and digits, and no address.
    """
    tokens = [secret for secret in secrets if _is_token(secret)]
    if not tokens:
        return reply
    return replace(
        reply, text=hide(reply.text, tokens), model=hide(reply.model, tokens)
    )


def _is_token(secret: str) -> bool:
    return (
        len(secret) >= _SHORTEST_TOKEN
        and not any(sign.isspace() for sign in secret)
        and "://" not in secret
        and any(map(str.isdigit, secret))
        and any(map(str.isalpha, secret))
    )


def _is_withheld(config: EngineConfig) -> bool:
    """Whether the default key is kept from a server on this machine that nobody has named.

    Others' programs may listen here too, and most servers of one's own need no key.
    """
    if config.api_key_env != DEFAULT_KEY or not is_loopback(config.base_url):
        return False
    return not is_granted(_grant(config, DEFAULT_KEY))


def _grant(config: EngineConfig, variable: str) -> Grant:
    return grant_to_send(variable, config.base_url, f"{config.section}.base_url")


def _variables(config: EngineConfig) -> Iterator[str]:
    if config.api_key_env:
        yield config.api_key_env
    yield from config.headers.values()


def _value(variable: str) -> str:
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise InputError(
            f"{variable}: the key in this environment variable holds characters "
            "that no key has. Copy it again."
        )
    return value
