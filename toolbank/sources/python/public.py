"""What of an installed package is public, and under which names."""

import importlib
import inspect
import pkgutil
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from toolbank.bank.records import ToolKind
from toolbank.sources.python.ownership import (
    belongs_to,
    is_foreign,
    kind_of,
    own_docstring,
)

_NO_API = frozenset({"tests", "test", "conftest", "setup"})
_NAMED_EXAMPLES = 5
_WARNINGS = DeprecationWarning | PendingDeprecationWarning | FutureWarning


@dataclass
class PublicObject:
    """An object and the public paths that lead to it, each with its deprecation or ""."""

    value: Any
    kind: ToolKind
    names: dict[str, str] = field(default_factory=dict)


@dataclass
class Walk:
    """The public objects of a package by identity, and what was left out, by reason."""

    root: ModuleType
    leaves_out: Callable[[str], bool]
    objects: dict[int, PublicObject] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def skip(self, name: str, reason: str) -> None:
        """Count a name that is left out; the first few of a reason are kept."""
        self.skipped[reason] += 1
        if len(self.examples[reason]) < _NAMED_EXAMPLES:
            self.examples[reason].append(name)


@dataclass(frozen=True)
class _Place:
    """A module, the public path to it, and the deprecation of that path."""

    path: str
    module: ModuleType
    deprecated: str = ""


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
    walk = Walk(root, leaves_out)
    waiting = [_Place(root.__name__, root)]
    visited: set[int] = set()
    while waiting:
        place = waiting.pop(0)
        if id(place.module) not in visited:
            visited.add(id(place.module))
            declared = _declared(place.module)
            waiting.extend(_named(walk, place, declared))
            waiting.extend(_in_folder(walk, place, declared))
    return walk


def members(
    cls: type, is_tool: Callable[[type], bool]
) -> Iterator[tuple[str, Any, ToolKind]]:
    """The public methods and properties of a class, sorted by name.

    What a class takes over from a base that is a tool itself belongs to the base.
    """
    package = (cls.__module__ or "").partition(".")[0]
    for attribute in sorted(
        inspect.classify_class_attrs(cls), key=lambda item: item.name
    ):
        home = attribute.defining_class
        top = (home.__module__ or "").partition(".")[0].lstrip("_")
        is_taken_over = home is not cls and (is_tool(home) or top != package)
        if attribute.name.startswith("_") or home is object or is_taken_over:
            continue
        if attribute.kind in ("method", "class method", "static method"):
            value = inspect.getattr_static(cls, attribute.name)
            yield attribute.name, getattr(value, "__func__", value), "method"
        elif attribute.kind == "property" or inspect.isdatadescriptor(attribute.object):
            yield attribute.name, attribute.object, "property"


def _named(walk: Walk, place: _Place, declared: list[str] | None) -> Iterator[_Place]:
    """Take what a module names into the walk; give the modules among it."""
    package = walk.root.__name__
    names = dir(place.module) if declared is None else declared
    for name in sorted(set(names)):
        full = f"{place.path}.{name}"
        if name.startswith("__" if declared is not None else "_"):
            continue
        if walk.leaves_out(full):
            walk.skip(full, "excluded by the recipe")
            continue
        try:
            value, warning = _get(place.module, name)
        except Exception as error:  # the package's own code may raise anything
            walk.skip(full, f"can't be read ({type(error).__name__})")
            continue
        if declared is None and not belongs_to(value, full, place.module, package):
            continue
        if declared is not None and is_foreign(
            value, package, place.module is walk.root
        ):
            walk.skip(full, "of another package")
            continue
        warning = warning or place.deprecated
        if inspect.ismodule(value):
            yield _Place(full, value, warning)
        _take(walk, full, value, warning)


def _take(walk: Walk, full: str, value: Any, warning: str) -> None:
    kind = kind_of(value, walk.root.__name__)
    if kind is None:
        walk.skip(full, "not a tool (constant, scalar type or container)")
    elif not own_docstring(value, kind).strip():
        walk.skip(full, "without documentation")
    else:
        item = walk.objects.setdefault(id(value), PublicObject(value, kind))
        item.names[full] = warning


def _in_folder(
    walk: Walk, place: _Place, declared: list[str] | None
) -> Iterator[_Place]:
    """The sub-modules in the folder of a package whose `__all__` names none of them.

    Where there is an `__all__`, they must be documented to count. Deprecated ones don't count.
    """
    folder = getattr(place.module, "__path__", None)
    if folder is None or place.module.__name__ != place.path:
        return
    names = sorted(info.name for info in pkgutil.iter_modules(folder))
    names = [name for name in names if not name.startswith("_") and name not in _NO_API]
    names_some = declared is not None and any(name in declared for name in names)
    for name in names:
        full = f"{place.path}.{name}"
        if names_some:
            if name not in (declared or ()):
                walk.skip(full, "sub-module that __all__ does not name")
            continue
        if walk.leaves_out(full):
            walk.skip(full, "excluded by the recipe")
            continue
        try:
            child, warning = import_module(full)
        except (Exception, SystemExit) as error:
            walk.skip(full, f"can't be imported ({type(error).__name__})")
            continue
        if warning:
            walk.skip(full, "deprecated module")
        elif declared is not None and not own_docstring(child, "module").strip():
            walk.skip(full, "without documentation")
        else:
            yield _Place(full, child)


def import_module(name: str) -> tuple[ModuleType, str]:
    """A module, and the text of the deprecation warning that its import gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(name)
    return module, _deprecation(caught)


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
        if issubclass(warning.category, _WARNINGS):
            return " ".join(str(warning.message).split())
    return ""
