"""Secrets kept out of what is shown."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

# Shorter ones are words, such as a placeholder for a key, and no secrets.
_SHORTEST_SECRET = 8


def hide(text: str, secrets: Sequence[str]) -> str:
    """The text without the secrets, in any way that a server may have echoed them.

    A secret that the end of the text has cut is hidden as well.
    """
    for written in (written for secret in secrets for written in _echoes(secret)):
        if written[:_SHORTEST_SECRET] not in text:
            continue
        text = text.replace(written, "***")
        for length in range(len(written) - 1, _SHORTEST_SECRET - 1, -1):
            if text.endswith(written[:length]):
                text = f"{text[:-length]}***"
    return text


@cache
def _echoes(secret: str) -> frozenset[str]:
    if len(secret) < _SHORTEST_SECRET:
        return frozenset()
    return frozenset(
        (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], html.escape(secret))
    )
