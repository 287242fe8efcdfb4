"""Values and annotations of a package as text: their `repr` is foreign code, and is bounded."""

import inspect
from collections.abc import Callable
from threading import Thread
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_SECONDS = 1.0
_MAX_TEXT = 1_000

_hung: set[type] = set()


def write_value(value: Any) -> str:
    """The `repr` of a default value.

    Where that raises, takes longer than a second or is longer than 1,000 characters, what any
    object has: "<package.Type object at 0x...>".
    """
    return _bounded(lambda: repr(value), value)


def write_annotation(annotation: Any) -> str:
    """An annotation as signatures show it, a string as it was written; else as `write_value`."""
    if isinstance(annotation, str):
        return annotation
    return _bounded(lambda: inspect.formatannotation(annotation), annotation)


def _bounded(write: Callable[[], str], value: Any) -> str:
    fallback = object.__repr__(value)
    if type(value) in _PLAIN:
        text = _attempt(write)
    elif type(value) in _hung:
        text = None
    else:
        text = _attempt_apart(write, type(value))
    return fallback if text is None or len(text) > _MAX_TEXT else text


def _attempt(write: Callable[[], str]) -> str | None:
    try:
        return write()
    except BaseException:
        return None


def _attempt_apart(write: Callable[[], str], kind: type) -> str | None:
    """The same in a thread, which is left behind where it does not end; of its type once."""
    texts: list[str | None] = []
    thread = Thread(target=lambda: texts.append(_attempt(write)), daemon=True)
    thread.start()
    thread.join(_SECONDS)
    if thread.is_alive():
        _hung.add(kind)
    return texts[0] if texts else None
