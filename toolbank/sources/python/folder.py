"""Read the tools of a folder of Python source without running any of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import griffe

from toolbank.bank.records import Tool
from toolbank.sources.documented import Signature
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.docstring import read_docstring
from toolbank.sources.python.exports import ModuleExports
from toolbank.sources.python.folder_files import find_broken, find_roots
from toolbank.sources.python.folder_loader import FolderLoader
from toolbank.sources.python.folder_types import (
    class_of,
    find_named,
    kind_of_class,
    last_name,
    lineage,
    signature_of,
)
from toolbank.sources.python.settings import Kind, PythonSource
from toolbank.sources.python.tools import PackageTools, make_tool
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

_BROKEN = "can't be parsed"

_Named = griffe.Object | griffe.Alias


def read_folder(config: PythonSource, folder: Path) -> ToolCollection:
    """Read the public functions, methods and classes of a folder, or the kinds of its scope.

    Files are parsed, and nothing is imported or run. A file that can't be parsed is skipped and
    reported with its line.

    Raises:
        InputError: it is no folder, or has no public and documented objects.
    """
    tools = PackageTools(config)
    problems: list[str] = []
    for home, name in find_roots(folder):
        broken = [
            (path.relative_to(home).as_posix(), why)
            for path, why in find_broken(home, name)
        ]
        try:
            root = _load(home, name)
        except (RecursionError, MemoryError):
            broken.append((name, "a file of it is nested too deep"))
        except (griffe.GriffeError, ImportError, SyntaxError, ValueError) as error:
            if not broken:
                problems.append(f"{config.label}: {name} can't be read ({error})")
        else:
            reader = _FolderReader(name, config.label)
            tools.add(walk_package(reader, root, tools.scope, tools.left_out))
        for place, why in broken:
            tools.left_out.add(_BROKEN, place)
            problems.append(f"{config.label}: {_BROKEN}, left out: {place}, {why}")
    shown = "".join(f" {one}." for one in problems[:1])
    return tools.collect(
        config.label,
        problems,
        f"{config.label}: {folder} has no public functions or classes with a docstring.{shown}",
    )


def _load(home: Path, name: str) -> griffe.Object | griffe.Alias:
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    loader = FolderLoader(home)
    root = loader.load(name, try_relative_path=False)
    loader.resolve_aliases(implicit=True, external=False)
    return root


class _FolderReader:
    """What the modules and classes of a parsed package have; see `PackageReader`."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source

    def open(
        self, path: str, module: griffe.Module, deprecated: str = ""
    ) -> ModulePath:
        return ModulePath(
            path,
            module,
            module.path,
            _declared(module),
            frozenset(module.modules),
            module.is_init_module,
            partial(_text_of, module),
            deprecated,
        )

    def names(self, walk: Walk, place: ModulePath) -> Iterator[Member]:  # noqa: ARG002
        """Yield the names of a module, sorted.

        A sub-module whose name its package gives to another object comes after that.
        """
        module, declared = place.module, place.declared
        lazy = _find_lazy(module, place.exports)
        for name, member in sorted({**lazy, **module.members}.items()):
            value = _resolve(member)
            is_alias = isinstance(member, griffe.Alias)
            found = [value]
            if isinstance(value, griffe.Module) and (namesake := _namesake(value)):
                hides = is_alias or name in (declared or ())
                found = [namesake] if hides else [namesake, value]
            for one in found:
                if isinstance(one, griffe.Attribute):  # it may be another name: g = f
                    named = find_named(one.value)
                    is_name = isinstance(named, griffe.Class | griffe.Function)
                    one = named if is_name else one
                is_own = one is not None and f"{one.path}.".startswith(f"{self.name}.")
                is_run = declared is not None or not is_alias or member.runtime
                is_lazy = bool(place.exports.lazy)
                if is_own and (is_run or is_lazy):
                    yield Member(name, one, is_lazy=is_lazy)

    def locate(self, value: griffe.Object) -> Place:
        home, _, own = value.path.rpartition(".")
        if isinstance(value, griffe.Module):
            file = value.filepath
            # A link may lead to a folder above it.
            key = str(file.resolve() if isinstance(file, Path) else file)
            return Place(key, value.path, own)
        return Place(value.path, home, own)

    def kind_of(self, value: Any) -> Kind | None:
        match value:
            case griffe.Module():
                return "module"
            case griffe.Class():
                return kind_of_class(value)
            case griffe.Function():
                return "function"
        cls = self.class_of(value)
        if cls is None:
            return None
        if _call_of(cls):
            return "function"
        return "object" if "__getitem__" in cls.all_members else None

    def class_of(self, value: Any) -> griffe.Class | None:
        is_value = isinstance(value, griffe.Attribute)
        return class_of(value.value) if is_value else None

    def docstring(self, value: griffe.Object, kind: Kind) -> str:
        """Its own docstring, or that of the method that it overrides, or of its class."""
        owner = value.parent
        candidates: list[Any] = [value]
        if isinstance(value, griffe.Class):
            candidates.append(value.members.get("__init__"))
        elif isinstance(owner, griffe.Class):
            candidates += [one.members.get(value.name) for one in lineage(owner)[1:]]
        if isinstance(value, griffe.Function):
            candidates += value.overloads or ()
        for one in candidates:
            if isinstance(one, griffe.Object) and one.docstring is not None:
                return one.docstring.value
        cls = self.class_of(value) if kind in ("function", "object") else None
        call = cls and _call_of(cls)
        texts = (self.docstring(one, "class") for one in (call, cls) if one)
        return next(filter(None, texts), "")

    def lineage(self, cls: griffe.Class) -> list[griffe.Class]:
        return lineage(cls)

    def is_public(self, cls: griffe.Class) -> bool:
        return not any(part.startswith("_") for part in cls.path.split("."))

    def attributes(self, cls: griffe.Class, is_listed: IsListed) -> Iterator[Attribute]:
        for base in (one for one in lineage(cls) if one is cls or not is_listed(one)):
            for name, member in sorted(base.members.items()):
                if isinstance(member, griffe.Attribute) and not name.startswith("_"):
                    held = class_of(member.annotation) or class_of(member.value)
                    if held is not None and not self.is_public(held):
                        yield Attribute(name, held)

    def members(self, cls: griffe.Class, is_listed: IsListed) -> Iterator[ClassMember]:
        bases = lineage(cls)[1:]
        listed = {
            one.path for base in bases if is_listed(base) for one in lineage(base)
        }
        found: dict[str, _Named] = {}
        for base in (*reversed(bases), cls):
            if base is cls or base.path not in listed:
                found |= base.members
        for name, value in sorted(found.items()):
            if not name.startswith("_"):
                if _is_property(value):
                    yield name, value, "property"
                elif isinstance(value, griffe.Function):
                    yield name, value, "method"

    def describe(self, name: str, kind: Kind, value: griffe.Object, text: str) -> Tool:
        documented = read_docstring(text)
        signature = Signature()
        cls = self.class_of(value) if kind == "function" else None
        made = (cls and _call_of(cls)) or value
        if isinstance(made, griffe.Function):
            signature = signature_of(list(made.parameters), made.returns)
        elif isinstance(made, griffe.Class):
            init = made.all_members.get("__init__") or made.all_members.get("__new__")
            made_by = list(getattr(init, "parameters", None) or made.parameters)
            signature = signature_of(made_by[1:], None)
            if not documented.parameters and init is not None and init.docstring:
                described = read_docstring(init.docstring.value).parameters
                documented = replace(documented, parameters=described)
        return make_tool(name, kind, documented, signature, self._source)

    def named_by(self, cls: Any) -> tuple[()]:  # noqa: ARG002
        return ()

    def takes_arguments(self, cls: griffe.Class, tool: Tool) -> bool:  # noqa: ARG002
        return bool(tool.parameters["properties"])

    def why_no_tool(self, value: Any, owner: Any, walk: Walk) -> str:  # noqa: ARG002
        return ""


def _call_of(cls: griffe.Class) -> griffe.Function | None:
    call = cls.all_members.get("__call__")
    return call if isinstance(call, griffe.Function) else None


def _is_property(value: _Named) -> bool:
    if isinstance(value, griffe.Attribute):
        return "property" in value.labels
    return isinstance(value, griffe.Function) and any(
        PROPERTY.search(last_name(str(one.value).partition("(")[0]))
        for one in value.decorators
    )


def _declared(module: griffe.Module) -> frozenset[str] | None:
    """The names in `__all__`, if any; a variable in it stands for the names that it lists."""
    if module.exports is None:
        return None
    names: set[str] = set()
    for one in module.exports:
        listed = module.members.get(str(one)) if isinstance(one, griffe.Expr) else None
        if isinstance(listed, griffe.Attribute):
            listing = getattr(listed.value, "elements", ())
            names.update(str(item).strip("'\"") for item in listing)
        else:
            names.add(str(one))
    return frozenset(names)


def _namesake(module: griffe.Module) -> griffe.Object | None:
    """The object that a package imports by the name of this sub-module of it.

    griffe knows only the sub-module by that name.
    """
    parent = module.parent
    bound = parent.imports.get(module.name) if parent is not None else None
    if bound is not None and bound != module.path:
        with suppress(KeyError, ValueError, griffe.GriffeError):
            found = _resolve(module.modules_collection[bound])
            return None if isinstance(found, griffe.Module) else found
    return None


def _text_of(module: griffe.Module) -> str:
    with suppress(OSError, UnicodeDecodeError):
        place = module.filepath
        if isinstance(place, Path) and place.is_file():
            return place.read_text(encoding="utf-8-sig")
    return ""


def _find_lazy(
    module: griffe.Module, exports: ModuleExports
) -> dict[str, griffe.Object]:
    """The objects that a module gives by its `__getattr__`, as far as its text names them."""
    found: dict[str, griffe.Object] = {}
    base = module.path if module.is_init_module else module.path.rpartition(".")[0]
    missing = exports.lazy.keys() - module.members.keys()
    for home in exports.homes if missing else ():
        for place in (home,) if home.startswith(".") else (home, f".{home}"):
            with suppress(KeyError, ValueError, ImportError, griffe.GriffeError):
                owner = _resolve(module.modules_collection[resolve_name(place, base)])
                if not isinstance(owner, griffe.Module) or owner is module:
                    continue
                for name in missing:
                    member = owner.members.get(exports.lazy[name])
                    if member is not None and (value := _resolve(member)) is not None:
                        found.setdefault(name, value)
    return found


def _resolve(member: _Named) -> griffe.Object | None:
    """The object that a name refers to; None if it is in another package or missing."""
    try:
        return member.final_target if isinstance(member, griffe.Alias) else member
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None
