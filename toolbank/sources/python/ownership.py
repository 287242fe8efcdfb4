"""Whose an object is, and whether it is a tool: read off the object, calling nothing."""

import enum
import inspect
import numbers
import sys
import typing
from types import ModuleType
from typing import Any

from toolbank.bank.records import ToolKind

NO_API = frozenset({"tests", "test", "conftest", "setup"})
"""Modules of these names are no part of what a package offers."""

_SCALARS = (int, float, complex, str, bytes)
_CONTAINERS = (dict, list, tuple, set, frozenset, *_SCALARS)
_TYPE_MODULES = frozenset({"types", "typing", "typing_extensions"})


def kind_of(value: Any, package: str) -> ToolKind | None:
    """What kind of tool an object is; None for data: constants, containers, scalar types."""
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return None if _is_scalar(value) else "class"
    if inspect.isroutine(value):
        return "function"
    if isinstance(value, _CONTAINERS) or value is None:
        return None
    home = type(value).__module__.partition(".")[0]
    if callable(value) and home not in _TYPE_MODULES and _is_named(value):
        return "function"
    is_data = hasattr(type(value), "__float__") or hasattr(type(value), "__int__")
    is_own = home == package.partition(".")[0]
    if is_own and hasattr(type(value), "__getitem__") and not is_data:
        return "object"
    return None


def own_docstring(value: Any, kind: ToolKind) -> str:
    """An object's docstring.

    A method may inherit it, and a function have it on an overload; a class may not inherit it, but
    that of its __init__ counts.
    """
    try:
        if kind == "class":
            text = value.__doc__ if "__doc__" in value.__dict__ else None
            text = text or getattr(value.__dict__.get("__init__"), "__doc__", None)
        elif kind in ("function", "method", "property"):
            text = inspect.getdoc(value) or _overload_docstring(value)
        else:
            text = getattr(value, "__doc__", None)
    except Exception:  # a foreign descriptor may raise anything
        return ""
    return text if isinstance(text, str) else ""


def belongs_to(value: Any, path: str, module: ModuleType, package: str) -> bool:
    """Whether a module without `__all__` defines what it names, itself or by a private module."""
    if inspect.ismodule(value):
        return value.__name__ == path
    home = _home(value)
    if not is_within(home, package):
        return False
    is_private = any(part.startswith("_") for part in home.split("."))
    return hasattr(module, "__path__") or is_private or home == module.__name__


def is_foreign(value: Any, package: str, is_root: bool) -> bool:
    """Whether a name in `__all__` only passes on what another package defines.

    The top module may pass on another package's objects (a facade does), but no modules.
    """
    home = value.__name__ if inspect.ismodule(value) else _home(value)
    if is_within(home, package) or home == "builtins":
        return False
    if home.partition(".")[0] in sys.stdlib_module_names:
        return not _is_standard(package) or inspect.ismodule(value)
    return inspect.ismodule(value) or not is_root


def is_within(home: str, package: str) -> bool:
    """Whether a module, by its name, is of the same package as another, or of its private twin."""
    top = package.partition(".")[0]
    return home.partition(".")[0] in (top, f"_{top}")


def _overload_docstring(value: Any) -> str | None:
    overloads = typing.get_overloads(value) if inspect.isfunction(value) else ()
    return next(filter(None, map(inspect.getdoc, overloads)), None)


def _is_scalar(cls: type) -> bool:
    """Whether instances are single numbers or texts; those of an enum are its members."""
    try:
        return issubclass(cls, (numbers.Number, *_SCALARS)) and not issubclass(
            cls, enum.Enum
        )
    except TypeError:
        return False


def _is_named(instance: Any) -> bool:
    """Whether a callable instance has a name or words of its own, and not its type's."""
    if isinstance(getattr(instance, "__name__", None), str):
        return True
    return getattr(instance, "__doc__", None) is not type(instance).__doc__


def _home(value: Any) -> str:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else type(value).__module__


def _is_standard(package: str) -> bool:
    return package.partition(".")[0] in sys.stdlib_module_names
