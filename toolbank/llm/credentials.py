"""The secrets that an endpoint wants: read from the environment, and written nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from toolbank.system.errors import InputError
from toolbank.system.net import is_loopback, is_private
from toolbank.system.secrets import hide
from toolbank.system.trust import DEFAULT_KEY, Grant, demand, is_named, remedy

if TYPE_CHECKING:
    from toolbank.chat.chat import ChatReply
    from toolbank.llm.config import EngineConfig

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
    demand(find_grants(config), config.section)
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
            grant = Grant.of(bearer, config.base_url)
            withheld = (
                f" The key in {bearer} was not sent: any program on this machine may listen "
                f"there, and you have not named it. {remedy(grant)}"
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
    try:
        # The default key is what is there by chance, and a server of one's own seldom wants it.
        return tuple(
            Grant.of(variable, config.base_url)
            for variable in _variables(config)
            if os.environ.get(variable, "").strip()
            and not (variable == config.api_key_env and _is_withheld(config))
        )
    except ValueError as error:
        raise _no_address(config) from error


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
    try:
        return not is_named(Grant.of(DEFAULT_KEY, config.base_url))
    except ValueError as error:
        raise _no_address(config) from error


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


def _no_address(config: EngineConfig) -> InputError:
    return InputError(
        f"{config.section}.base_url: {config.base_url} is no address that a key can be sent to. "
        "Give one such as https://HOST/v1."
    )
