"""Secrets kept out of what is shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

# Shorter ones are words, such as a placeholder for a key, and no secrets.
_SHORTEST_SECRET = 8
_USER = re.compile(r"(https?://)[^/@\s]*@", re.IGNORECASE)


def hide(text: str, secrets: Sequence[str], shortest: int = _SHORTEST_SECRET) -> str:
    """The text without the secrets, in any way that a server may have echoed them.

    Those of fewer than `shortest` signs stay. A secret of eight or more that the end of the text
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
