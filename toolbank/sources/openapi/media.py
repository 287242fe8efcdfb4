"""Which of several content types is taken: JSON before forms before all others."""

from __future__ import annotations

import re
from collections.abc import Iterable

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_JSON_TYPE = re.compile(r"(?:application|text|\*)/(?:[\w.+-]*\+)?json")


def is_json(content_type: str) -> bool:
    """Whether a content type is one of JSON, such as application/vnd.github+json."""
    return bool(_JSON_TYPE.fullmatch(bare(content_type)))


def is_form(content_type: str) -> bool:
    """Whether a content type is one of forms."""
    return bare(content_type) in FORMS


def choose(content_types: Iterable[str]) -> str:
    """The content type to send, "" of none; one of the same rank that is listed first."""
    return min(content_types, key=_rank, default="")


def bare(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _rank(content_type: str) -> int:
    plain = bare(content_type)
    if plain == "application/json":
        return 0
    if is_json(content_type):
        return 1
    if plain == "*/*" or plain == "application/*":
        return 2
    return 3 + FORMS.index(plain) if plain in FORMS else 5
