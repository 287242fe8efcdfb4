"""What of an installed package is public, and under which names."""

import importlib
import inspect
import numbers
import pkgutil
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from toolbank.bank import ToolKind

_NO_API = frozenset({"tests", "test", "conftest", "setup"})
_SCALARS = (int, float, complex, str, bytes)
_TYPE_MODULES = frozenset({"types", "typing", "typing_extensions"})
_CONTAINERS = (dict, list, tuple, set, frozenset, *_SCALARS)


@dataclass
class PublicObject:
    """An object and the public paths that lead to it, each with its deprecation or ""."""

    value: Any
    kind: ToolKind
    names: dict[str, str] = field(default_factory=dict)


@dataclass
class Walk:
    """The public objects of a package, and counts of what was left out, by reason."""

    objects: list[PublicObject]
    skipped: Counter[str]
    examples: dict[str, list[str]]


def walk_package(root: ModuleType, leaves_out: Callable[[str], bool]) -> Walk:
    """Find every public object of a package and of its public sub-modules.

    A name is public if the module's `__all__` has it; in a module without `__all__`, if it has
    no leading underscore and its object is defined there (in a package: anywhere in it). What
    is of the standard library is not the package's own, and what is of another package only
    where the top `__all__` says so. Sub-modules are those that `__all__` names; if it names
    none, those in the folder. Documented functions, classes, modules, callable objects and
    indexable objects of the package's own types count. Numbers and text, and their types, are
    data and don't. Objects are told apart by identity.
    """
    found: dict[int, PublicObject] = {}
    skipped: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)

    def skip(name: str, reason: str) -> None:
        skipped[reason] += 1
        if len(examples[reason]) < 5:
            examples[reason].append(name)

    package = root.__name__
    waiting = [(package, root, "")]
    visited: set[int] = set()
    while waiting:
        path, module, warned = waiting.pop(0)
        if id(module) in visited:
            continue
        visited.add(id(module))
        declared = _declared(module)
        names = dir(module) if declared is None else declared
        for name in sorted(set(names)):
            if declared is None and name.startswith("_"):
                continue
            if name.startswith("__"):
                continue
            full = f"{path}.{name}"
            if leaves_out(full):
                skip(full, "excluded by the recipe")
                continue
            try:
                value, warning = _get(module, name)
            except Exception as error:
                skip(full, f"can't be read ({type(error).__name__})")
                continue
            if inspect.ismodule(value):
                if declared is None and value.__name__ != full:
                    continue
                if not value.__name__.startswith(f"{package}."):
                    skip(full, "of another package")
                    continue
                waiting.append((full, value, warning))
            elif declared is None and not _belongs_to(value, module, package):
                continue
            kind = _kind(value, package)
            if kind is None:
                skip(full, "not a tool (constant, scalar type or container)")
            elif declared is not None and _is_foreign(value, package, module is root):
                skip(full, "of another package")
            elif not _is_documented(value, kind):
                skip(full, "without documentation")
            else:
                item = found.setdefault(id(value), PublicObject(value, kind))
                item.names[full] = warning or warned
        for full, child in _children(module, path, declared, leaves_out, skip):
            waiting.append((full, child, ""))
    return Walk(list(found.values()), skipped, dict(examples))


def members(
    cls: type, is_public_base: Callable[[type], bool]
) -> Iterator[tuple[str, Any, ToolKind]]:
    """The public methods and properties of a class, sorted by name.

    What a class takes over from a base that is a tool itself belongs to the base.
    """
    package = (cls.__module__ or "").partition(".")[0]
    for attribute in sorted(inspect.classify_class_attrs(cls), key=lambda a: a.name):
        home = attribute.defining_class
        if attribute.name.startswith("_") or home is object:
            continue
        if home is not cls and (
            is_public_base(home)
            or (home.__module__ or "").partition(".")[0].lstrip("_") != package
        ):
            continue
        if attribute.kind in ("method", "class method", "static method"):
            value = inspect.getattr_static(cls, attribute.name)
            yield attribute.name, getattr(value, "__func__", value), "method"
        elif attribute.kind == "property" or inspect.isdatadescriptor(attribute.object):
            yield attribute.name, attribute.object, "property"


def own_docstring(value: Any, kind: ToolKind) -> str:
    """An object's docstring. A method may inherit it; a class may not, but its __init__ counts."""
    try:
        if kind == "class":
            text = value.__doc__ if "__doc__" in value.__dict__ else None
            text = text or getattr(value.__dict__.get("__init__"), "__doc__", None)
        elif kind in ("function", "method", "property"):
            text = inspect.getdoc(value)
        else:
            text = getattr(value, "__doc__", None)
    except Exception:  # a foreign descriptor may raise anything
        return ""
    return text if isinstance(text, str) else ""


def _declared(module: ModuleType) -> list[str] | None:
    names = getattr(module, "__all__", None)
    if isinstance(names, list | tuple | set | frozenset):
        return [name for name in names if isinstance(name, str)]
    return None


def _get(module: ModuleType, name: str) -> tuple[Any, str]:
    """A module's attribute, or its sub-module, and the text of a deprecation warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = getattr(module, name)
        except AttributeError:
            if not hasattr(module, "__path__"):
                raise
            value = importlib.import_module(f"{module.__name__}.{name}")
    return value, _deprecation(caught)


def _deprecation(caught: list[warnings.WarningMessage]) -> str:
    for warning in caught:
        if issubclass(
            warning.category,
            DeprecationWarning | PendingDeprecationWarning | FutureWarning,
        ):
            return " ".join(str(warning.message).split())
    return ""


def _children(
    module: ModuleType,
    path: str,
    declared: list[str] | None,
    leaves_out: Callable[[str], bool],
    skip: Callable[[str, str], None],
) -> Iterator[tuple[str, ModuleType]]:
    """The sub-modules in the folder of a package whose `__all__` names none of them.

    Where there is an `__all__`, they must be documented to count. Deprecated ones don't count.
    """
    folder = getattr(module, "__path__", None)
    if folder is None or module.__name__ != path:
        return
    names = sorted(info.name for info in pkgutil.iter_modules(folder))
    names = [name for name in names if not name.startswith("_") and name not in _NO_API]
    if declared is not None and any(name in declared for name in names):
        for name in names:
            if name not in declared:
                skip(f"{path}.{name}", "sub-module that __all__ does not name")
        return
    for name in names:
        full = f"{path}.{name}"
        if leaves_out(full):
            skip(full, "excluded by the recipe")
            continue
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                child = importlib.import_module(full)
        except (Exception, SystemExit) as error:
            skip(full, f"can't be imported ({type(error).__name__})")
            continue
        if _deprecation(caught):
            skip(full, "deprecated module")
        elif declared is not None and not _is_documented(child, "module"):
            skip(full, "without documentation")
        else:
            yield full, child


def _kind(value: Any, package: str) -> ToolKind | None:
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return None if _is_scalar(value) else "class"
    if inspect.isroutine(value):
        return "function"
    if isinstance(value, _CONTAINERS) or value is None:
        return None
    home = type(value).__module__.partition(".")[0]
    own_type = home == package.partition(".")[0]
    if callable(value) and home not in _TYPE_MODULES and _is_own(value):
        return "function"
    is_data = hasattr(type(value), "__float__") or hasattr(type(value), "__int__")
    if own_type and hasattr(type(value), "__getitem__") and not is_data:
        return "object"
    return None


def _is_own(instance: Any) -> bool:
    """Whether a callable instance has a name or words of its own, and not its type's."""
    named = isinstance(getattr(instance, "__name__", None), str)
    return named or getattr(instance, "__doc__", None) is not type(instance).__doc__


def _is_documented(value: Any, kind: ToolKind) -> bool:
    return bool(own_docstring(value, kind).strip())


def _is_scalar(cls: type) -> bool:
    """Whether instances are single numbers or texts."""
    try:
        return issubclass(cls, (numbers.Number, *_SCALARS))
    except TypeError:
        return False


def _home(value: Any) -> str:
    home = getattr(value, "__module__", None)
    if not isinstance(home, str):
        home = type(value).__module__
    return home


def _belongs_to(value: Any, module: ModuleType, package: str) -> bool:
    """Whether a module without `__all__` defines an object, itself or by a private module."""
    home = _home(value)
    top = package.partition(".")[0]
    if home.partition(".")[0] not in (top, f"_{top}"):
        return False
    is_private = any(part.startswith("_") for part in home.split("."))
    return hasattr(module, "__path__") or is_private or home == module.__name__


def _is_foreign(value: Any, package: str, is_root: bool) -> bool:
    """Whether a name in `__all__` only passes on what another package defines."""
    top = package.partition(".")[0]
    home = _home(value).partition(".")[0]
    if home in (top, f"_{top}", "builtins"):
        return False
    if home in sys.stdlib_module_names:
        return top not in sys.stdlib_module_names
    return not is_root
