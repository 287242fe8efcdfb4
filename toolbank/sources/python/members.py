"""The public methods and properties of a class: read off it, calling nothing."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal

from toolbank.sources.python.ownership import is_within

_WRAPPED = (functools.partialmethod, functools.singledispatchmethod)


def members(
    cls: type, is_listed: Callable[[type], bool]
) -> Iterator[tuple[str, Any, Literal["method", "property"]]]:
    """A class's own methods and properties, sorted by name.

    Own is what it defines, and what it takes over from a base of the same package, such as a
    private one, unless another class has it by that whose own members are listed.
    """
    listed = {
        id(one) for base in cls.__mro__[1:] if is_listed(base) for one in base.__mro__
    }
    found: dict[str, tuple[type, Any]] = {}
    for base in reversed(cls.__mro__):
        found |= {name: (base, value) for name, value in vars(base).items()}
    for name, (home, value) in sorted(found.items()):
        is_own = home is cls or (
            is_within(home.__module__ or "", cls.__module__ or "")
            and id(home) not in listed
        )
        if name.startswith("_") or not is_own:
            continue
        if isinstance(value, staticmethod | classmethod):
            yield name, value.__func__, "method"
        elif isinstance(value, _WRAPPED):
            yield name, getattr(value, "func", None), "method"
        elif inspect.isroutine(value) and callable(value):
            yield name, value, "method"
        elif isinstance(value, functools.cached_property) or (
            inspect.isdatadescriptor(value)
        ):
            yield name, value, "property"
