"""Find the public objects of an installed package, and their names."""

import functools
import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from toolbank.sources.python.attributes import (
    Attribute,
    attributes_of,
    belongs_to,
    is_foreign,
    is_of_private_module,
    is_within,
    kind_of,
    own_docstring,
)
from toolbank.sources.python.exports import ModuleExports, read_exports
from toolbank.sources.python.folder_files import NO_API
from toolbank.sources.python.settings import (
    DEPRECATED,
    EXCLUDED,
    IMPORTED,
    PackageScope,
    recipe_kind,
)
from toolbank.sources.python.walk import NO_TOOL, PublicObject, Walk

_LOST = "can't be read without a known type"


def take_parts(walk: Walk) -> None:
    """Add the classes that attributes of public classes hold, and theirs in turn.

    A public class keeps its own name. The methods of a private class are public if an instance is
    a public attribute; its name is the shortest path to that attribute. A private base of a public
    class is skipped, as the public class has its methods.
    """
    waiting = [item for item in walk.objects.values() if item.kind == "class"]
    seen = {id(item.value) for item in waiting}
    for name, value in walk.instances.items():
        cls = type(value)
        if not walk.is_listed(cls) and not _is_public(cls):
            waiting += filter(None, [walk.take_part(name, cls)])
        elif id(value) not in walk.objects:
            walk.left_out.add(NO_TOOL, name)
    holders = {"class", *walk.scope.kinds}
    for owner in waiting:
        attributes: list[Attribute] = []
        if recipe_kind(owner.value, "class") in holders:
            attributes += attributes_of(owner.value, walk.is_listed)
        held = (
            one.cls for one in attributes if one.cls is not None and one.is_instance
        )
        for part in (*_named_by(owner.value), *held):
            full = f"{part.__module__}.{part.__qualname__}"
            is_inside = full.startswith(f"{walk.root.__name__}.")
            if id(part) in seen or not is_inside or not _is_public(part):
                if known := walk.objects.get(id(part)):
                    known.is_deep = known.is_deep and owner.is_deep
                continue
            seen.add(id(part))
            if walk.scope.looks_into(full):
                walk.take(full, part)
                if item := walk.objects.get(id(part)):
                    waiting.append(item)
        waiting += _private_parts(walk, owner, attributes)
    bases = {
        id(base)
        for item in waiting
        if not item.is_private
        for base in item.value.__mro__
    }
    for key in bases:
        if key in walk.objects and walk.objects[key].is_private:
            del walk.objects[key]
    for key in bases | walk.objects.keys():
        walk.hidden.pop(key, None)


def _private_parts(
    walk: Walk, owner: PublicObject, attributes: list[Attribute]
) -> Iterator[PublicObject]:
    """Add private classes by the attributes that hold them; yield those that are new."""
    for one in attributes:
        key, full = id(one.cls), f"{owner.name}.{one.name}"
        if not walk.scope.looks_into(full):
            continue
        if one.cls is None:
            if "method" in walk.scope.kinds:
                walk.left_out.add(_LOST, full)
            continue
        if (
            walk.is_listed(one.cls)
            or _is_public(one.cls)
            or not _is_inside(one.cls, walk.root.__name__)
        ):
            continue
        is_descriptor = inspect.getattr_static(one.cls, "__get__", None) is not None
        if is_descriptor or not one.is_only:
            walk.hidden[key] = one.cls
            continue
        if part := walk.take_part(full, one.cls):
            yield part


def _named_by(cls: type) -> Iterator[type]:
    """Classes of the package that the code of `__init__` and of properties names.

    Nothing is called.
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


def _is_public(cls: type) -> bool:
    """Whether a class is an attribute of its module by its own name, which is not private."""
    words = f"{cls.__module__}.{cls.__qualname__}".split(".")
    module = sys.modules.get(cls.__module__)
    return (
        NO_API.isdisjoint(words)
        and not any(word.startswith("_") for word in words)
        and inspect.getattr_static(module, cls.__qualname__, None) is cls
    )


def _is_inside(cls: type, package: str) -> bool:
    """Whether a class is defined in a package, or in the private twin of a top package."""
    home = cls.__module__ or ""
    is_top = "." not in package
    return f"{home}.".startswith(f"{package}.") or (is_top and is_within(home, package))


_WARNINGS = DeprecationWarning | PendingDeprecationWarning | FutureWarning


@dataclass(frozen=True)
class _ModulePath:
    """A module, the public path to it, and the deprecation of that path."""

    path: str
    module: ModuleType
    deprecated: str = ""
    is_deep: bool = False

    @functools.cached_property
    def exports(self) -> ModuleExports:
        """What the module's text says; nothing if it has no text."""
        try:
            return read_exports(inspect.getsource(self.module))
        except (OSError, TypeError, SyntaxError):
            return ModuleExports()

    @functools.cached_property
    def declared(self) -> list[str] | None:
        """The names in `__all__`; None without one."""
        return _declared(self.module)


def walk_package(root: ModuleType, scope: PackageScope) -> Walk:
    """Find every public object of a package and of its public sub-modules.

    A name is public if the module's `__all__` has it. In a module without `__all__`, it is public
    if it has no leading underscore and its object is defined there (in a package: anywhere in it).
    Objects of other packages are public only if the top `__all__` names them, those of the
    standard library never.

    Sub-modules of a package with an `__all__` are deep if they have no own one, and that names
    other sub-modules, or they have no docstring. A class does not leave its methods to a deep base.

    Public sub-modules are those that `__all__` names, and those in the folder without a leading
    underscore, except tests, examples and the like. Lazy names (`lazy_names`) are read as an
    import of them would.

    Documented functions, classes, modules, callable objects and indexable objects of the package's
    types are tools, and so are classes that the attributes of public instances hold. Numbers,
    texts and their types are data. Objects are compared by identity.
    """
    walk = Walk(root, scope)
    waiting = [_ModulePath(root.__name__, root)]
    visited: set[int] = set()
    while waiting:
        place = waiting.pop(0)
        if id(place.module) not in visited:
            visited.add(id(place.module))
            waiting.extend(_named(walk, place))
            waiting.extend(_in_folder(walk, place))
    take_parts(walk)
    return walk


def _named(walk: Walk, place: _ModulePath) -> Iterator[_ModulePath]:
    """Add the names of a module to the walk; yield the modules among them."""
    declared = place.declared
    names = set(dir(place.module) if declared is None else declared)
    lazy: set[str] = set()
    if declared is None:
        if inspect.getattr_static(place.module, "__getattr__", None):
            lazy = {*place.exports.lazy} - names - vars(place.module).keys()
        # A sub-module is an attribute only once it was imported, unless a namesake hides it.
        held = vars(place.module)
        modules = {
            name
            for name in _sub_modules(place)
            if name not in held or inspect.ismodule(held[name])
        }
        names = (names | lazy) - modules
    for name in sorted(names):
        full = f"{place.path}.{name}"
        if name.startswith("__" if declared is not None else "_"):
            continue
        if not walk.scope.looks_into(full):
            if name not in lazy:
                walk.left_out.add(EXCLUDED, full)
            continue
        try:
            child = _look_at(walk, place, name, is_lazy=name in lazy)
        except Exception as error:  # the package's own code may raise anything
            if name not in lazy or not _is_no_name(error, walk.root.__name__):
                walk.left_out.add(f"can't be read ({type(error).__name__})", full)
            continue
        if child is not None:
            yield child


def _is_no_name(error: Exception, package: str) -> bool:
    """Whether a module's `__getattr__` says that it has no such attribute."""
    missing = getattr(error, "name", None) or ""
    is_import = isinstance(error, ImportError) and is_within(missing, package)
    return is_import or isinstance(error, AttributeError | KeyError)


def _look_at(
    walk: Walk, place: _ModulePath, name: str, *, is_lazy: bool
) -> _ModulePath | None:
    """Add the object of a name to the walk, if it is public; return it if it is a module."""
    package = walk.root.__name__
    full = f"{place.path}.{name}"
    value, warning = _get(place.module, name, can_import=not is_lazy)
    if is_lazy and not inspect.ismodule(value):
        if is_foreign(value, package, is_root=False):
            return None
    elif place.declared is None:
        is_offered = belongs_to(value, full, place.module, package) or (
            is_of_private_module(value, package) and place.exports.offers(name)
        )
        if not is_offered:
            if is_of_private_module(value, package) and kind_of(value, package):
                walk.left_out.add(IMPORTED, full)
            return None
    elif is_foreign(value, package, place.module is walk.root):
        walk.left_out.add("of another package", full)
        return None
    warning = warning or place.deprecated
    is_deep = place.is_deep
    walk.take(full, value, warning, is_deep=is_deep)
    if not inspect.ismodule(value):
        return None
    return _ModulePath(full, value, warning, is_deep)


def _in_folder(walk: Walk, place: _ModulePath) -> Iterator[_ModulePath]:
    """Yield the public sub-modules in the folder of a package; see `walk_package`.

    Deprecated ones are skipped.
    """
    if place.module.__name__ != place.path:
        return
    names = _sub_modules(place)
    for name in names:
        full = f"{place.path}.{name}"
        if name in NO_API or name in (place.declared or ()):
            continue
        if not walk.scope.looks_into(full):
            walk.left_out.add(EXCLUDED, full)
            continue
        try:
            child, warning = import_module(full)
        except BaseException as error:
            walk.left_out.add(f"can't be imported ({type(error).__name__})", full)
            continue
        if warning:
            walk.left_out.add(DEPRECATED, full)
        else:
            is_deep = place.is_deep or _is_deep(child, place.declared, names)
            yield _ModulePath(full, child, is_deep=is_deep)
            walk.take(full, child, is_deep=is_deep)


def _is_deep(child: ModuleType, declared: list[str] | None, names: list[str]) -> bool:
    """Whether a package does not present a sub-module by an `__all__` or its documentation."""
    if declared is None or _declared(child) is not None:
        return False
    names_some = not set(declared).isdisjoint(names)
    return names_some or not own_docstring(child, "module").strip()


def _sub_modules(place: _ModulePath) -> list[str]:
    """Names of the modules in a package's folder, without private ones."""
    folder = getattr(place.module, "__path__", None) or ()
    names = sorted(info.name for info in pkgutil.iter_modules(folder))
    return [name for name in names if not name.startswith("_")]


def import_module(name: str) -> tuple[ModuleType, str]:
    """Import a module; return it with the text of its deprecation warning, or ""."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(name)
    return module, _deprecation(caught)


def _declared(module: ModuleType) -> list[str] | None:
    names = inspect.getattr_static(module, "__all__", None)
    if isinstance(names, list | tuple | set | frozenset):
        return [name for name in names if isinstance(name, str)]
    return None


def _get(module: ModuleType, name: str, *, can_import: bool) -> tuple[Any, str]:
    """A module's attribute or sub-module, and the text of its deprecation warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = getattr(module, name)
        except AttributeError:
            if not (can_import and hasattr(module, "__path__")):
                raise
            value = importlib.import_module(f"{module.__name__}.{name}")
    return value, _deprecation(caught)


def _deprecation(caught: list[warnings.WarningMessage]) -> str:
    for warning in caught:
        if issubclass(warning.category, _WARNINGS):
            return " ".join(str(warning.message).split())
    return ""
