"""Classes whose instances hang on those of another, as the invoices on a client do."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from toolbank.sources.python.ownership import is_within


def parts_of(cls: type) -> Iterator[type]:
    """The classes of the same package that `__init__` and the properties of a class name.

    Read off their code; none of it is called.
    """
    for base in cls.__mro__:
        if not is_within(base.__module__ or "", cls.__module__ or ""):
            continue
        for name, value in vars(base).items():
            function = _maker(name, value)
            if not inspect.isfunction(function):
                continue
            for word in function.__code__.co_names:
                part = function.__globals__.get(word)
                if isinstance(part, type) and is_within(
                    part.__module__ or "", cls.__module__ or ""
                ):
                    yield part


def _maker(name: str, value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    return value if name == "__init__" else None
