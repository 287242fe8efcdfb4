"""The names that users import from a package, and the objects that these lead to.

One walk for every reader of packages: `PackageReader` tells what there is, `Walk` what is public.
"""

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import Tool
from toolbank.sources.python.docstring import is_marked_private
from toolbank.sources.python.exports import ModuleExports, read_exports
from toolbank.sources.python.folder_files import NO_API
from toolbank.sources.python.settings import (
    CLASSES,
    EXCLUDED,
    IMPORTED,
    Kind,
    PackageScope,
)

PROPERTY = re.compile(r"propert|attribute|reify|lazy", re.I)
"""Names of decorators and descriptors that make a property of a method."""

MARKED_PRIVATE = "marked `:meta private:`"
_NO_TOOL = "not a tool (constant, scalar type or container)"
_OWN_TESTS = "function or object named test, which runs the tests of a package"
_LOST = "can't be read without a known type"


@dataclass(frozen=True)
class Place:
    """Where an object is defined: what identifies it, its module, and its name there."""

    key: Hashable
    home: str
    own: str


@dataclass(frozen=True)
class ModulePath:
    """A module, the public path to it, and the deprecation of that path.

    `name` is its own; `declared` are the names in `__all__`, None without one; `sub_modules` those
    in its folder; `read` returns its text.
    """

    path: str
    module: Any
    name: str
    declared: frozenset[str] | None
    sub_modules: frozenset[str]
    is_package: bool
    read: Callable[[], str]
    deprecated: str = ""
    is_deep: bool = False

    @functools.cached_property
    def exports(self) -> ModuleExports:
        """What the module's text says."""
        return read_exports(self.read())


@dataclass(frozen=True)
class Member:
    """What a module has by a name; `is_lazy`: by its `__getattr__`."""

    name: str
    value: Any
    deprecated: str = ""
    is_lazy: bool = False


@dataclass(frozen=True)
class Attribute:
    """A public attribute of instances, and a class of the package that its definition names.

    `is_instance`: the value may be an instance of the class. `is_only`: and of no other class.
    `cls` is None if the named class is of the package but can't be found.
    """

    name: str
    cls: Any
    is_instance: bool = True
    is_only: bool = True


IsListed = Callable[[Any], bool]
ClassMember = tuple[str, Any, Literal["method", "property"]]


class PackageReader(Protocol):
    """What a package has, imported or parsed; what of it is public, the walk decides."""

    name: str

    def open(self, path: str, module: Any, deprecated: str = "") -> ModulePath:
        """Look at a module."""

    def names(self, walk: "Walk", place: ModulePath) -> Iterator[Member]:
        """Yield what a module has, without objects of other packages."""

    def locate(self, value: Any) -> Place:
        """Return where an object is defined."""

    def kind_of(self, value: Any) -> Kind | None:
        """Return the kind of an object; None for constants, containers and scalar types."""

    def class_of(self, value: Any) -> Any:
        """Return the package's class that an object is an instance of, or None."""

    def docstring(self, value: Any, kind: Kind) -> str:
        """Return the docstring of an object, or ""."""

    def lineage(self, cls: Any) -> list[Any]:
        """Return a class and its bases, nearest first."""

    def is_public(self, cls: Any) -> bool:
        """Whether a class has a public name in its own module."""

    def attributes(self, cls: Any, is_listed: IsListed) -> Iterator[Attribute]:
        """Yield what instances hold, except by listed bases."""

    def named_by(self, cls: Any) -> Iterable[Any]:
        """Return classes that the code of a class names."""

    def members(self, cls: Any, is_listed: IsListed) -> Iterator[ClassMember]:
        """Yield methods and properties, sorted, with those of bases that are not listed."""

    def describe(self, name: str, kind: Kind, value: Any, text: str) -> Tool:
        """Return the tool of an object with a docstring."""

    def takes_arguments(self, cls: Any, tool: Tool) -> bool:
        """Whether a class is created with arguments."""

    def why_no_tool(self, value: Any, owner: Any, walk: "Walk") -> str:
        """Why a method of a class is no tool, or ""."""


@dataclass
class PublicObject:
    """An object and its public paths, each with its deprecation or "".

    A class that `is_private` has no public path; its paths lead to an instance, and only its
    methods are public. All paths of an object that `is_deep` lead through modules that the package
    does not present (`walk_package`).
    """

    value: Any
    kind: Kind
    text: str
    place: Place
    names: dict[str, str] = field(default_factory=dict)
    is_private: bool = False
    is_deep: bool = False

    @property
    def name(self) -> str:
        """The best path: not deprecated, the shortest, ending in the object's own name.

        Of these, the one nearest to the module that defines it.
        """
        return min(self.names, key=self._rank)

    def _rank(self, path: str) -> tuple[bool, int, bool, bool, int, str]:
        parent, _, last = path.rpartition(".")
        is_far = not f"{self.place.home}.".startswith(f"{parent}.")
        is_other = last != self.place.own
        deprecated = bool(self.names[path])
        return deprecated, path.count("."), is_other, is_far, len(path), path


@dataclass
class Walk:
    """The public objects of a package by identity, and the skipped names.

    `instances` are those of the package's classes, by public path. `hidden` are private
    classes that public attributes may hold, `tried` public ones that others use.
    """

    reader: PackageReader
    scope: PackageScope
    left_out: SkipCounter
    objects: dict[Hashable, PublicObject] = field(default_factory=dict)
    instances: dict[str, Any] = field(default_factory=dict)
    hidden: dict[Hashable, Any] = field(default_factory=dict)
    tried: set[Hashable] = field(default_factory=set)

    def looks_into(self, path: str) -> bool:
        """Whether the scope has a path; one that it excludes is counted."""
        if not (is_in := self.scope.looks_into(path)):
            self.left_out.add(EXCLUDED, path)
        return is_in

    def fail(self, error: BaseException, path: str, what: str = "read") -> None:
        """Count what the package's own code does not let be read."""
        self.left_out.add(f"can't be {what} ({type(error).__name__})", path)

    def take(
        self, name: str, value: Any, deprecated: str = "", *, is_deep: bool = False
    ) -> None:
        """Add an object by a public path to it, unless it is data."""
        kind = self.reader.kind_of(value)
        if name.endswith(".test") and kind not in ("module", *CLASSES):
            self.left_out.add(_OWN_TESTS, name)
            return
        if self.reader.class_of(value) is not None:
            self.instances[name] = value
        if kind is None:
            if name not in self.instances:
                self.left_out.add(_NO_TOOL, name)
            return
        text = self.reader.docstring(value, kind)
        if is_marked_private(text):
            self.left_out.add(MARKED_PRIVATE, name)
            return
        place = self.reader.locate(value)
        new = PublicObject(value, kind, text, place, is_deep=is_deep)
        known = self.objects.setdefault(place.key, new)
        known.names[name] = deprecated
        known.is_deep = known.is_deep and is_deep

    def take_parts(self) -> None:
        """Add the classes that attributes of public classes hold, and theirs in turn.

        A public class keeps its own name. The methods of a private class are public if an
        instance is a public attribute; its name is the shortest path to that attribute. A private
        base of a public class is skipped, as the public class has its methods.
        """
        waiting = [item for item in self.objects.values() if item.kind in CLASSES]
        for name, value in self.instances.items():
            cls = self.reader.class_of(value)
            if not self.is_listed(cls) and not self.reader.is_public(cls):
                waiting += self._take_part(name, cls)
            elif self.reader.locate(value).key not in self.objects:
                self.left_out.add(_NO_TOOL, name)
        for owner in waiting:
            attributes: list[Attribute] = []
            if owner.kind in {"class", *self.scope.kinds}:
                attributes += self.reader.attributes(owner.value, self.is_listed)
            held = [one.cls for one in attributes if one.cls and one.is_instance]
            for part in (*self.reader.named_by(owner.value), *held):
                waiting += self._take_public(part, owner)
            for one in attributes:
                waiting += self._take_attribute(one, owner)
        bases = {
            self.reader.locate(base).key
            for item in waiting
            if not item.is_private
            for base in self.reader.lineage(item.value)
        }
        for key in bases:
            if key in self.objects and self.objects[key].is_private:
                del self.objects[key]
        for key in bases | self.objects.keys():
            self.hidden.pop(key, None)

    def _take_part(self, name: str, cls: Any) -> Iterator[PublicObject]:
        """Add a private class by the path to an instance; yield it if it is new."""
        place = self.reader.locate(cls)
        kind = self.reader.kind_of(cls) or "class"
        part = PublicObject(cls, kind, "", place, is_private=True)
        known = self.objects.setdefault(place.key, part)
        known.names[name] = ""
        if known is part:
            yield part

    def _take_public(self, cls: Any, owner: PublicObject) -> Iterator[PublicObject]:
        """Add a public class that another one uses by its own path; yield it if it is new."""
        place = self.reader.locate(cls)
        full = f"{place.home}.{place.own}"
        if known := self.objects.get(place.key):
            known.is_deep = known.is_deep and owner.is_deep
        elif (
            place.key not in self.tried
            and full.startswith(f"{self.reader.name}.")
            and self.reader.is_public(cls)
            and self.scope.looks_into(full)
        ):
            self.tried.add(place.key)
            self.take(full, cls)
            yield from filter(None, [self.objects.get(place.key)])

    def _take_attribute(
        self, one: Attribute, owner: PublicObject
    ) -> Iterator[PublicObject]:
        """Add the private class that an attribute holds; yield it if it is new."""
        full = f"{owner.name}.{one.name}"
        if not self.scope.looks_into(full):
            return
        if one.cls is None:
            if "method" in self.scope.kinds:
                self.left_out.add(_LOST, full)
        elif not self.is_listed(one.cls) and not self.reader.is_public(one.cls):
            if one.is_only:
                yield from self._take_part(full, one.cls)
            else:
                self.hidden[self.reader.locate(one.cls).key] = one.cls

    def is_listed(self, cls: Any) -> bool:
        """Whether a class was added by its own path."""
        item = self.objects.get(self.reader.locate(cls).key)
        return item is not None and not item.is_private

    def members(self, cls: Any, *, of_deep: bool = True) -> Iterator[ClassMember]:
        """Yield methods and properties of a class; those of a base that is a tool are its own.

        A class that the package presents, and thus is not deep, repeats those of a deep one.
        """

        def is_listed(base: Any) -> bool:
            item = self.objects.get(self.reader.locate(base).key)
            if item is None or item.kind not in {"class", *self.scope.kinds}:
                return False
            return of_deep or not item.is_deep

        return self.reader.members(cls, is_listed)

    @functools.cached_property
    def lineage(self) -> set[Hashable]:
        """The public classes and their bases, by identity."""
        classes = [one.value for one in self.objects.values() if one.kind in CLASSES]
        bases = (base for cls in classes for base in self.reader.lineage(cls))
        return {self.reader.locate(base).key for base in bases}


def walk_package(
    reader: PackageReader, root: Any, scope: PackageScope, left_out: SkipCounter
) -> Walk:
    """Find every public object of a package and of its public sub-modules.

    A name is public if the module's `__all__` has it. In a module without `__all__`, it is public
    if it has no leading underscore and its object is defined there (in a package: anywhere in it).
    Objects of other packages are public only if the top `__all__` names them, those of the
    standard library never.

    Sub-modules of a package with an `__all__` are deep if they have no own one, and that names
    other sub-modules, or they have no docstring. A class does not leave its methods to a deep base.

    Public sub-modules are those that `__all__` names, and those in the folder without a leading
    underscore, except tests, examples and the like. Lazy names (`ModuleExports`) are read as an
    import of them would.

    Documented functions, classes, modules, callable objects and indexable objects of the package's
    types are tools, and so are classes that the attributes of public instances hold. Numbers,
    texts and their types are data. Objects are compared by identity.
    """
    walk = Walk(reader, scope, left_out)
    waiting = [reader.open(reader.name, root)]
    visited: set[Hashable] = set()
    while waiting:
        place = waiting.pop(0)
        key = reader.locate(place.module).key
        if key in visited:
            continue
        visited.add(key)
        # A module that was imported meanwhile may have added to the `__all__` of this one.
        now = reader.open(place.path, place.module, place.deprecated)
        place = replace(now, is_deep=place.is_deep)
        for member in reader.names(walk, place):
            try:
                child = _take_member(walk, place, member)
            except Exception as error:  # the package's own code may raise anything
                walk.fail(error, f"{place.path}.{member.name}")
                continue
            waiting += filter(None, [child])
    walk.take_parts()
    return walk


def _take_member(walk: Walk, place: ModulePath, member: Member) -> ModulePath | None:
    """Add what a module offers; return it if it is a module."""
    full = f"{place.path}.{member.name}"
    if not (_offers(walk, place, member) and walk.looks_into(full)):
        return None
    warning, is_deep = member.deprecated or place.deprecated, place.is_deep
    child = None
    if walk.reader.kind_of(member.value) == "module":
        child = walk.reader.open(full, member.value, warning)
        is_deep = is_deep or _is_deep(walk, child, member.name, place)
        child = replace(child, is_deep=is_deep)
    walk.take(full, member.value, warning, is_deep=is_deep)
    return child


def _offers(walk: Walk, place: ModulePath, member: Member) -> bool:
    """Whether a module offers what it has to users; see `walk_package`."""
    name = member.name
    home = walk.reader.locate(member.value).home
    kind = walk.reader.kind_of(member.value)
    if place.declared is not None and name in place.declared:
        return not name.startswith("__")
    if kind == "module":
        is_api = not (name.startswith("_") or name in NO_API)
        return is_api and home == f"{place.name}.{name}"
    if place.declared is not None or name.startswith("_"):
        return False
    if member.is_lazy or place.is_package or home == place.name:
        return True
    is_private = any(part.startswith("_") for part in home.split("."))
    if is_private and place.exports.offers(name):
        return True
    if is_private and kind:
        walk.left_out.add(IMPORTED, f"{place.path}.{name}")
    return False


def _is_deep(walk: Walk, child: ModulePath, name: str, parent: ModulePath) -> bool:
    """Whether a package does not present a sub-module by an `__all__` or its documentation."""
    declared = parent.declared
    if declared is None or name in declared or child.declared is not None:
        return False
    names_some = not declared.isdisjoint(parent.sub_modules)
    return names_some or not walk.reader.docstring(child.module, "module").strip()
