"""Python literals in documentation, as JSON values."""

import ast
import json
import warnings
from typing import Any

_MAX_LITERAL = 60
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


class _Unreadable:
    """The type of the mark for a text that is no JSON value (None is one)."""


_UNREADABLE = _Unreadable()


def literal(text: str) -> Any:
    """The JSON value that a Python literal writes, or a mark that is no JSON value."""
    text = text.strip().translate(_QUOTES)
    if not text or len(text) > _MAX_LITERAL:
        return _UNREADABLE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _UNREADABLE


def is_literal(value: Any) -> bool:
    """Whether `literal` could read its text."""
    return value is not _UNREADABLE
