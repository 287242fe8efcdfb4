"""Configuration of engines, and their credentials from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# Headers that every request has.
_OWN_HEADER = re.compile(
    "accept-encoding|connection|content-length|content-type|host|transfer-encoding"
)

ENGINE_NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"

MOST_AUTO = 1024


class Price(Config):
    """The price of a million tokens, in US dollars."""

    input: float = Field(ge=0, description="of prompts")
    output: float = Field(ge=0, description="of replies")


class BudgetConfig(Config):
    """Limits that end a stage early. All except `minutes` apply to the total of all commands on a run folder."""

    calls: int | None = Field(
        default=None, ge=1, description="calls sent to the engine"
    )
    tokens: int | None = Field(default=None, ge=1, description="in and out")
    dollars: float | None = Field(default=None, gt=0, description="needs `price`")
    minutes: float | None = Field(default=None, gt=0, description="of one command")


DEFAULT_TIMEOUT_S = 120.0
"""The time limit of a try, unless the recipe or the kind of engine has another."""


class EngineConfig(Config):
    """The settings to reach a model. The key itself is read from the environment.

    Settings marked `Transport` do not change the replies.
    """

    # The recipe section, for messages, and the steps of its calls in a journal.
    section: ClassVar[str]
    call_steps: ClassVar[tuple[str, ...]]
    # Whether `engine: rules` works by rules, without an engine.
    by_rules: ClassVar[bool] = False
    # The place of the only engine that serves it, such as "module:KIND"; "" if `engine` names one.
    only_engine: ClassVar[str] = ""

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, or one of another package",
    )
    base_url: Transport[str] = Field(
        default="https://api.openai.com/v1",
        pattern=r"^https?://[^@?#\s\x00-\x1f\x7f]+$",
        description="URL of an OpenAI-compatible endpoint; it must not contain a key or password",
    )
    model: str = Field(default="", description="name of the model at the endpoint")
    api_key_env: Transport[_Variable | None] = Field(
        default=DEFAULT_KEY,
        description="NAME of the key's environment variable; null: no key",
    )
    headers: Transport[dict[_HeaderName, _Variable]] = Field(
        default={},
        description=(
            "further headers; for each, the NAME of the environment variable that has its "
            "value, such as api-key: AZURE_OPENAI_API_KEY"
        ),
    )
    url_query: Transport[dict[_QueryName, str]] = Field(
        default={},
        description="query string added to each URL, such as api-version: '2024-10-21'; no secrets",
    )
    temperature: float | None = Field(
        default=0.9, ge=0, le=2, description="sampling temperature; null: not sent"
    )
    max_tokens: int = Field(default=4096, ge=1, description="per reply")
    parameters: dict[str, JsonValue] = Field(
        default={}, description="more sampling parameters, such as top_p: 0.95"
    )
    options: dict[str, JsonValue] = Field(
        default={},
        description="options of the engine, such as tensor_parallel_size: 2 for vllm",
    )
    price: Transport[
        Annotated[
            Price | Path,
            UnionChoice("should be a mapping of keys, or the path of a file"),
        ]
        | None
    ] = Field(
        default=None,
        description="dollars per million tokens, or a YAML file with the prices of each model",
    )
    timeout: Transport[float | None] = Field(
        default=None,
        gt=0,
        description="seconds per try; unset: 120, and no limit for vllm",
    )
    total_timeout: Transport[float] = Field(
        default=900, gt=0, description="seconds per call, with all tries"
    )
    retries: Transport[int] = Field(
        default=5, ge=0, description="retries of a failed call"
    )
    executor: Transport[Literal["local", "ray"]] = Field(
        default="local",
        description="local: this process; ray: workers of a cluster",
    )
    workers: Transport[int] = Field(
        default=1, ge=1, le=4096, description="processes with `executor: ray`"
    )
    concurrency: Transport[
        Annotated[
            Literal["auto"] | Annotated[int, Field(ge=1, le=4096)],
            UnionChoice("should be a whole number, or 'auto'"),
        ]
    ] = Field(
        default="auto",
        description="calls in flight; auto: as many as the endpoint can handle",
    )
    rpm: Transport[int | None] = Field(
        default=None, ge=1, description="calls per minute"
    )
    tpm: Transport[int | None] = Field(
        default=None, ge=1, description="tokens per minute"
    )
    max_outage: Transport[float] = Field(
        default=600,
        ge=0,
        description="seconds of downtime before the run stops",
    )
    budget: Transport[BudgetConfig] = BudgetConfig()
    _language: str = PrivateAttr("en")

    @property
    def language(self) -> str:
        """The language of the texts to write, which a recipe sets for all its parts."""
        return self._language

    def in_language(self, language: str) -> Self:
        """Copy the settings for texts in a language."""
        copy = self.model_copy()
        copy._language = language
        return copy

    @property
    def panel(self) -> tuple[EngineConfig, ...]:
        """The settings of all models that it calls."""
        return (self,)

    @property
    def most_in_flight(self) -> int:
        """The largest number of calls in flight."""
        return MOST_AUTO if self.concurrency == "auto" else self.concurrency

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.workers > 1 and self.executor == "local":
            raise ValueError(
                f"workers: {self.workers} needs `executor: ray`; add it, or remove workers"
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
                raise ValueError("set `api_key_env`, which sends Authorization")
            if _OWN_HEADER.fullmatch(lower):
                raise ValueError(f"{name} is set by toolbank")
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
            # Azure Functions take their key as `code`.
            if (
                name.lower() == "code"
                or named_secret(name)
                or find_secrets(given, name)
            ):
                raise ValueError(
                    f"{name} looks like a secret, which must not be in a recipe; send it with "
                    "`headers` or `api_key_env`"
                )
        return value

    @field_validator("budget")
    @classmethod
    def _check_dollars(cls, value: BudgetConfig, info: ValidationInfo) -> BudgetConfig:
        if value.dollars is not None and info.data.get("price", ...) is None:
            raise ValueError(
                "dollars can't be counted without a price; set `price` in dollars per million "
                "tokens, such as price: {input: 0.15, output: 0.6}"
            )
        return value


class SearchModelConfig(EngineConfig):
    """A model that searches call; every reply is kept in a journal of its own."""

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, or a plug-in",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="sampling temperature; null: not sent"
    )
    replies: Path = Field(
        description="journal of the replies in the run folder, such as replies.sqlite",
        json_schema_extra=PATH_IN_RUN,
    )
    _earlier: Path | None = PrivateAttr(None)

    @property
    def known_replies(self) -> Path:
        """The journal to read: that of an earlier version, until it is in the run folder."""
        if self._earlier is not None and not self.replies.exists():
            return self._earlier
        return self.replies

    @property
    def kept(self) -> str:
        """What stays after an interrupt, for messages."""
        return f"The replies that came are in {self.replies}"

    def keep_replies(self, replies: Path, earlier: Path | None = None) -> Self:
        """Copy the settings with another journal; replies of the `earlier` one belong in it."""
        kept = self.model_copy(update={"replies": replies})
        kept._earlier = earlier
        return kept


Part = TypeVar("Part", bound=Config)


def change_search_models(part: Part, change: Callable[[Any], Any]) -> Part:
    """Change the models that the searches of a recipe part call."""
    if isinstance(part, SearchModelConfig):
        changed_part: Part = change(part)
        return changed_part
    changed = {
        key: change(value)
        for key, value in part
        if isinstance(value, SearchModelConfig)
    }
    return part.model_copy(update=changed) if changed else part


# The key that is sent to servers that need none.
NO_KEY = "none"
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Credentials:
    """The credentials that are sent with each request to an endpoint.

    `headers` has the key as a bearer token, and the user's own headers. `withheld` says why an
    existing key is not sent, and what to do, or is "".
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    withheld: str = ""

    def hide(self, text: str) -> str:
        """Hide the secrets in a text."""
        return hide(text, self.secrets)


def read_credentials(config: EngineConfig) -> Credentials:
    """Read the credentials from the environment variables that the recipe names.

    Raises:
        InputError: a public endpoint's key or a header's value is not set or malformed, or the
            user has not consented to sending it to this host.
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
                f"{bearer}: this environment variable is not set, and {config.base_url} needs a "
                f"key. Run `export {bearer}=...`, or set api_key_env to another variable, or use "
                "an engine that needs no key (recorded, rules)."
            )
        if key or not headers:
            headers["Authorization"] = f"Bearer {key or NO_KEY}"
    return Credentials(headers, find_engine_secrets(config), withheld)


def find_grants(config: EngineConfig) -> tuple[Grant, ...]:
    """List the secrets that are sent, for which the user's consent is needed.

    Raises:
        InputError: the base URL has no host.
    """
    # The default key may be set for another endpoint, and a local server seldom needs it.
    return tuple(
        _grant(config, variable)
        for variable in _variables(config)
        if os.environ.get(variable, "").strip()
        and not (variable == config.api_key_env and _is_withheld(config))
    )


def find_engine_secrets(config: EngineConfig) -> tuple[str, ...]:
    """Read the values of all variables that a configuration names, if they are set."""
    values = (os.environ.get(name, "").strip() for name in _variables(config))
    return tuple(dict.fromkeys(filter(None, values)))


def hide_in_reply(reply: ChatReply, secrets: Sequence[str]) -> ChatReply:
    """Hide a token that was sent and that the endpoint has echoed in the text or model.

    Other values that are sent are words, titles and addresses (`not-needed`, X-Title,
    HTTP-Referer). A model may write them by itself, and the bank must not depend on the
    environment. So only what nobody writes by chance is hidden: 16 or more characters without
    space, with letters and digits, and no address.
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
        and not any(map(str.isspace, secret))
        and "://" not in secret
        and any(map(str.isdigit, secret))
        and any(map(str.isalpha, secret))
    )


def _is_withheld(config: EngineConfig) -> bool:
    """Whether the default key is withheld from a local server without the user's consent.

    Other users' programs may listen there too, and most local servers need no key.
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
