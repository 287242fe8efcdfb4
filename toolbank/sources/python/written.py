"""Values and annotations of a package as text: their `repr` is foreign code, and may fail."""

import inspect
from collections.abc import Callable
from typing import Any

_MAX_TEXT = 1_000


def write_value(value: Any) -> str:
    """The `repr` of a default value.

    Where that raises or is longer than 1,000 characters, what any object has:
    "<package.Type object at 0x...>".
    """
    return _bounded(lambda: repr(value), value)


def write_annotation(annotation: Any) -> str:
    """An annotation as signatures show it, a string as it was written; else as `write_value`."""
    if isinstance(annotation, str):
        return annotation
    return _bounded(lambda: inspect.formatannotation(annotation), annotation)


def _bounded(write: Callable[[], str], value: Any) -> str:
    try:
        text = write()
    except (Exception, SystemExit):
        text = None
    if text is None or len(text) > _MAX_TEXT:
        return object.__repr__(value)
    return text
