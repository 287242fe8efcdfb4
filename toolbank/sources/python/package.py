"""Read the tools of an installed Python package by importing it."""

import functools
import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from toolbank.bank.records import Tool
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.attributes import (
    attributes_of,
    home_of,
    is_foreign,
    is_instance_of,
    is_within,
    kind_of,
    own_bases,
    own_docstring,
    text_of,
)
from toolbank.sources.python.folder_files import NO_API
from toolbank.sources.python.settings import (
    DEPRECATED,
    Kind,
    PythonSource,
    package_version,
)
from toolbank.sources.python.signature import describe
from toolbank.sources.python.tools import PackageTools
from toolbank.sources.python.walk import (
    PROPERTY,
    Attribute,
    ClassMember,
    IsListed,
    Member,
    ModulePath,
    Place,
    Walk,
    walk_package,
)
from toolbank.system.errors import InputError

_BORROWED = "another name of a method of a class that is no base"
_DESCRIPTOR = "attribute of a descriptor that holds no function"
_WARNINGS = DeprecationWarning | PendingDeprecationWarning | FutureWarning


def read_package(config: PythonSource) -> ToolCollection:
    """Read the public functions, methods and classes of a package, or the kinds of its scope.

    The package is imported; of its objects, only the `repr` of default values is called.

    Raises:
        InputError: the package is not installed, can't be imported, or has no public tools.
    """
    package = config.api_name
    source = f"python:{package_version(package)}"
    root = _import_root(package)
    tools = PackageTools(config)
    reader = _InstalledReader(package, source)
    tools.add(walk_package(reader, root, tools.scope, tools.left_out))
    problems = (
        f"{source}: {number:,} skipped, {reason}: "
        f"{', '.join(tools.left_out.examples[reason])}"
        for reason, number in sorted(tools.left_out.counts.items())
        if reason.startswith("can't be")
    )
    return tools.collect(
        source,
        problems,
        f"the package {package} has no public functions or classes with a docstring. Name the "
        "module that has them (package: name.module), or list them in its __all__ and add "
        "docstrings.",
    )


def _import_root(name: str) -> ModuleType:
    try:
        root: ModuleType = _heed(importlib.import_module, name)[0]
    except BaseException as error:
        top = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == top:
            raise InputError(
                f"sources: the package {name} is not installed in toolbank's environment. "
                f"Install it (pip install {top}, or its name on the package index), or check "
                "the spelling: give the import name."
            ) from error
        raise InputError(
            f"sources: the package {name} can't be imported "
            f"({type(error).__name__}: {error}). Make `python -c 'import {name}'` work first."
        ) from error
    return root


class _InstalledReader:
    """What the modules and classes of an imported package have; see `PackageReader`."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source

    def open(self, path: str, module: ModuleType, deprecated: str = "") -> ModulePath:
        declared = inspect.getattr_static(module, "__all__", None)
        is_list = isinstance(declared, list | tuple | set | frozenset)
        folder = getattr(module, "__path__", None)
        names = (info.name for info in pkgutil.iter_modules(folder or ()))
        return ModulePath(
            path,
            module,
            module.__name__,
            frozenset(one for one in declared if isinstance(one, str))
            if is_list
            else None,
            frozenset(name for name in names if not name.startswith("_")),
            folder is not None,
            functools.partial(_text_of, module),
            deprecated,
        )

    def names(self, walk: Walk, place: ModulePath) -> Iterator[Member]:
        yield from self._named(walk, place)
        if place.name == place.path:
            yield from self._in_folder(walk, place)

    def _named(self, walk: Walk, place: ModulePath) -> Iterator[Member]:
        held = vars(place.module)
        lazy: set[str] = set()
        if place.declared is None:
            known = set(dir(place.module))
            if inspect.getattr_static(place.module, "__getattr__", None):
                lazy = place.exports.lazy.keys() - known - held.keys()
            # A sub-module is an attribute only once it was imported, unless a namesake hides it.
            modules = {
                name
                for name in place.sub_modules
                if name not in held or inspect.ismodule(held[name])
            }
            names = {one for one in known | lazy if not one.startswith("_")} - modules
        else:
            names = {one for one in place.declared if not one.startswith("__")}
        for name in sorted(names):
            full = f"{place.path}.{name}"
            if name in lazy and not walk.scope.looks_into(full):
                continue
            if not walk.looks_into(full):
                continue
            try:
                value, warning = _heed(_get, place.module, name, name not in lazy)
                is_other = self._is_other(value, place, is_lazy=name in lazy)
            except Exception as error:  # the package's own code may raise anything
                if name not in lazy or not self._is_no_name(error):
                    walk.fail(error, full)
                continue
            if not is_other:
                yield Member(name, value, warning, name in lazy)
            elif place.declared is not None:
                walk.left_out.add("of another package", full)

    def _is_other(self, value: Any, place: ModulePath, *, is_lazy: bool) -> bool:
        if place.declared is None and not is_lazy:
            return not is_within(home_of(value), self.name)
        is_root = place.name == self.name and not is_lazy
        return is_foreign(value, self.name, is_root=is_root)

    def _is_no_name(self, error: Exception) -> bool:
        """Whether a module's `__getattr__` says that it has no such attribute."""
        missing = getattr(error, "name", None) or ""
        is_import = isinstance(error, ImportError) and is_within(missing, self.name)
        return is_import or isinstance(error, AttributeError | KeyError)

    def _in_folder(self, walk: Walk, place: ModulePath) -> Iterator[Member]:
        """Yield the sub-modules in a folder that are not deprecated."""
        for name in sorted(place.sub_modules - NO_API - (place.declared or set())):
            full = f"{place.path}.{name}"
            if not walk.looks_into(full):
                continue
            try:
                child, warning = _heed(importlib.import_module, full)
            except BaseException as error:
                walk.fail(error, full, "imported")
                continue
            if warning:
                walk.left_out.add(DEPRECATED, full)
            else:
                yield Member(name, child)

    def locate(self, value: Any) -> Place:
        own = text_of(value, "__qualname__") or text_of(value, "__name__")
        return Place(id(value), home_of(value), own)

    def kind_of(self, value: Any) -> Kind | None:
        return kind_of(value, self.name)

    def class_of(self, value: Any) -> type | None:
        return type(value) if is_instance_of(value, self.name) else None

    def docstring(self, value: Any, kind: Kind) -> str:
        return own_docstring(value, kind)

    def lineage(self, cls: type) -> list[type]:
        return [*cls.__mro__]

    def is_public(self, cls: type) -> bool:
        words = f"{cls.__module__}.{cls.__qualname__}".split(".")
        module = sys.modules.get(cls.__module__)
        return (
            NO_API.isdisjoint(words)
            and not any(word.startswith("_") for word in words)
            and inspect.getattr_static(module, cls.__qualname__, None) is cls
        )

    def attributes(self, cls: type, is_listed: IsListed) -> Iterator[Attribute]:
        is_top = "." not in self.name
        for one in attributes_of(cls, is_listed):
            home = (one.cls and one.cls.__module__) or ""
            is_inside = f"{home}.".startswith(f"{self.name}.")
            if one.cls is None or is_inside or (is_top and is_within(home, self.name)):
                yield one

    def named_by(self, cls: type) -> Iterator[type]:
        """Yield classes that the code of `__init__` and of properties names, without a call."""
        package = cls.__module__ or ""
        for base in cls.__mro__:
            if not is_within(base.__module__ or "", package):
                continue
            for name, value in vars(base).items():
                if isinstance(value, property):
                    value = value.fget
                elif isinstance(value, functools.cached_property):
                    value = value.func
                elif name != "__init__":
                    continue
                if not inspect.isfunction(value):
                    continue
                for word in value.__code__.co_names:
                    part = value.__globals__.get(word)
                    if isinstance(part, type) and is_within(
                        part.__module__ or "", package
                    ):
                        yield part

    def members(self, cls: type, is_listed: IsListed) -> Iterator[ClassMember]:
        own = own_bases(cls, is_listed)
        found: dict[str, tuple[type, Any]] = {}
        for base in reversed(cls.__mro__):
            found |= {name: (base, value) for name, value in vars(base).items()}
        for name, (home, value) in sorted(found.items()):
            if name.startswith("_") or not any(home is base for base in own):
                continue
            if isinstance(value, staticmethod | classmethod):
                yield name, value.__func__, "method"
            elif _is_property(value):
                held = None if isinstance(value, property) else _called_by(value)
                yield name, held or value, "property"
            elif hasattr(value, "__get__") and not inspect.isclass(value):
                yield name, _called_by(value), "method"

    def describe(self, name: str, kind: Kind, value: Any, _text: str) -> Tool:
        return describe(name, kind, value, self._source)

    def takes_arguments(self, cls: type, tool: Tool) -> bool:
        """A custom constructor without a signature does, a protocol does not."""
        if vars(cls).get("_is_protocol"):
            return False
        if tool.signature or tool.parameters["properties"]:
            return bool(tool.parameters["properties"])
        constructors = (vars(base) for base in cls.__mro__ if base is not object)
        return any("__init__" in names or "__new__" in names for names in constructors)

    def why_no_tool(self, value: Any, owner: type, walk: Walk) -> str:
        """It holds no function, or is compiled and that of another public class or its base."""
        home = getattr(value, "__objclass__", owner)
        is_borrowed = home not in owner.__mro__ and id(home) in walk.lineage
        return _DESCRIPTOR if value is None else _BORROWED if is_borrowed else ""


def _text_of(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError, SyntaxError):
        return ""


def _get(module: ModuleType, name: str, can_import: bool) -> Any:
    """A module's attribute or sub-module."""
    try:
        return getattr(module, name)
    except AttributeError:
        if not (can_import and hasattr(module, "__path__")):
            raise
        return importlib.import_module(f"{module.__name__}.{name}")


def _heed(call: Callable[..., Any], *given: Any) -> tuple[Any, str]:
    """Call a function; return the result with the text of its deprecation warning, or ""."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call(*given)
    said = (one.message for one in caught if issubclass(one.category, _WARNINGS))
    return value, " ".join(str(next(said, "")).split())


def _is_property(value: Any) -> bool:
    is_known = isinstance(value, functools.cached_property) or hasattr(value, "fget")
    named = PROPERTY.search(type(value).__name__)
    return is_known or inspect.isdatadescriptor(value) or named is not None


def _called_by(value: Any) -> Any:
    """The function of a descriptor, which may be in any of its attributes; None without one."""
    if callable(value) and text_of(value, "__name__"):
        return value
    held = getattr(value, "__dict__", {})
    named = [held.get("__wrapped__"), held.get("func"), *held.values()]
    return next(filter(inspect.isroutine, named), None)
