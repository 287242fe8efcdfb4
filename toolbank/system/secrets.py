"""Keep secrets out of what is shown."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from toolbank.system.secret_values import find_spans

# Shorter ones are words, such as a placeholder for a key, and no secrets.
_SHORTEST_SECRET = 8
_MARK = re.compile(r"<(?:secret of|text sha256)")
_USER = re.compile(r"(https?://)[^/@\s]*@", re.IGNORECASE)


def mask_secrets(
    value: str, name: str = "", mask: Callable[[str], str] | None = None
) -> str:
    """The value with something else in the place of each secret: three stars, or what `mask` says."""
    parts, last = [], 0
    for start, end in find_spans(value, name):
        parts += [value[last:start], mask(value[start:end]) if mask else "***"]
        last = end
    return "".join((*parts, value[last:]))


def name_arguments(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The words after the program, each after the option that it is the value of, or ""."""
    before = ""
    for word in command[1:]:
        yield before, word
        before = word if word.startswith("-") and "=" not in word else ""


def mask_command(command: Sequence[str]) -> list[str]:
    """A command's words with three stars in the place of each secret."""
    named = name_arguments(command)
    return [*command[:1], *(mask_secrets(word, option) for option, word in named)]


def hash_secret(secret: str) -> str:
    """The length and hash of a secret, which are shown in its place where you consent to it."""
    plural = "" if len(secret) == 1 else "s"
    return f"<secret of {len(secret)} character{plural}, sha256:{_hash(secret)}>"


def has_hash(text: str) -> bool:
    """Whether a text has, or imitates, what is shown in place of a secret or invisible characters."""
    return bool(_MARK.search(text))


def show_unseen(value: str) -> str:
    """The text on one line, with its hash if it has invisible characters or looks like a hash.

    So no text is shown like another text or like a hidden secret.
    """
    if value.isprintable() and not has_hash(value):
        return value
    seen = "".join(s if s.isprintable() else ascii(s)[1:-1] for s in value)
    return f"{seen} <text sha256:{_hash(value)}>"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def hide(text: str, secrets: Sequence[str], shortest: int = _SHORTEST_SECRET) -> str:
    """The text without the secrets, in any way that a server may have echoed them.

    Secrets of fewer than `shortest` characters stay. A secret of eight or more that the end of the text
    has cut is hidden as well.
    """
    for written in _echoes(tuple(secrets), shortest):
        if written[:_SHORTEST_SECRET] not in text:
            continue
        text = text.replace(written, "***")
        for length in range(len(written) - 1, _SHORTEST_SECRET - 1, -1):
            if text.endswith(written[:length]):
                text = f"{text[:-length]}***"
    return text


def without_credentials(value: Any) -> Any:
    """JSON, such as a recipe, whose URLs have lost user names, passwords and query strings."""
    if isinstance(value, dict):
        return {key: without_credentials(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_credentials(part) for part in value]
    if isinstance(value, str) and value.lower().startswith(("http://", "https://")):
        try:
            parts = urlsplit(value)
        except ValueError:
            return "(not a URL)"
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    return without_users(value) if isinstance(value, str) else value


def without_users(text: str) -> str:
    """The text whose URLs have lost user names and passwords."""
    return _USER.sub(r"\1", text)


@cache
def _echoes(secrets: tuple[str, ...], shortest: int) -> tuple[str, ...]:
    """The longest first: one may be a part of another."""
    written = {
        echo
        for secret in secrets
        if len(secret) >= shortest
        for echo in (
            secret,
            quote(secret, safe="", errors="replace"),
            json.dumps(secret)[1:-1],
            html.escape(secret),
        )
    }
    return tuple(sorted(written, key=lambda echo: (-len(echo), echo)))
