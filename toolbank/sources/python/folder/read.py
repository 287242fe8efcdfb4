"""Tools of a folder of Python source, by its text alone."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import griffe

from toolbank.bank.bank import LeftOut
from toolbank.bank.records import Tool, ToolKind
from toolbank.sources.kind import Collected
from toolbank.sources.python.docstring import read_docstring
from toolbank.sources.python.folder.annotations import read_annotation
from toolbank.sources.python.folder.files import find_broken, find_roots
from toolbank.sources.python.folder.kinds import base_classes, kind_of_class
from toolbank.sources.python.folder.public import Found, find_public
from toolbank.sources.python.kinds import Kind, describe_left_out
from toolbank.sources.python.made import make_tool
from toolbank.sources.python.scope import Scope
from toolbank.sources.python.source import PythonSource
from toolbank.sources.signatures import Signature, read_signature
from toolbank.system.errors import InputError

_BROKEN = "can't be parsed"
_NO_ARGUMENTS = "class that is made without arguments"
_NO_DOCSTRING = "without documentation"
_TYPING = re.compile(r"\b(?:typing|typing_extensions|collections\.abc|t|te)\.(?=[A-Z])")
_VARIADIC = {
    griffe.ParameterKind.var_positional: "*",
    griffe.ParameterKind.var_keyword: "**",
}


def read_folder(config: PythonSource, folder: Path) -> Collected:
    """The public functions, methods and classes in a folder, or what the scope takes of them.

    The text is parsed, and nothing of it imported or run. A file that can't be parsed is left out
    and named, with its line.

    Raises:
        InputError: it is no folder, or has nothing that is public and documented.
    """
    reading = _Reading(Scope.of(config), config.label)
    for home, name in find_roots(folder):
        reading.read(home, name)
    note = describe_left_out(
        reading.other_kinds,
        reading.scope.kinds,
        reading.undocumented,
        hidden=0,
        methods=config.methods,
    )
    if not reading.tools:
        said = [*reading.problems[:1], note and f"What it had was {note}"]
        raise InputError(
            f"sources: {config.label}: {folder} has no public functions or classes with a "
            f"docstring. {' '.join(one + '.' for one in said if one)}".strip()
        )
    return Collected(
        tuple(reading.tools[name] for name in sorted(reading.tools)),
        {
            "source": config.label,
            **reading.left_out.as_info(),
            "undocumented": sorted(reading.undocumented),
        },
        problems=tuple(reading.problems),
        notes=(f"{config.label}: {note}",) if note else (),
    )


class _Reading:
    """What has been read of a folder, and what was left out."""

    def __init__(self, scope: Scope, label: str) -> None:
        self.scope = scope
        self.tools: dict[str, Tool] = {}
        self.left_out = LeftOut()
        self.undocumented: list[str] = []
        self.other_kinds: Counter[Kind] = Counter()
        self.problems: list[str] = []
        self._label = label

    def read(self, home: Path, name: str) -> None:
        """Read a package or module."""
        for path, why in find_broken(home, name):
            place = path.relative_to(home).as_posix()
            self.left_out.add(_BROKEN, place)
            self.problems.append(f"{self._label}: {_BROKEN}, left out: {place}, {why}")
        logging.getLogger("griffe").setLevel(logging.CRITICAL)
        loader = griffe.GriffeLoader(
            search_paths=[home], allow_inspection=False, store_source=False
        )
        try:
            root = loader.load(name, try_relative_path=False)
        except (RecursionError, MemoryError):
            self.left_out.add(_BROKEN, name)
            self.problems.append(
                f"{self._label}: {_BROKEN}, left out: {name}, a file of it is nested too deep"
            )
            return
        except (griffe.GriffeError, ImportError, SyntaxError, ValueError) as error:
            if not self.left_out.counts[_BROKEN]:
                self.problems.append(f"{self._label}: {name} can't be read ({error})")
            return
        loader.resolve_aliases(implicit=True, external=False)
        if isinstance(root, griffe.Module):
            public = find_public(root, self.scope)
            for found, names in public.values():
                self._take(found, names, public)

    def _take(self, found: Found, names: list[str], public: Collection[str]) -> None:
        name, *aliases = names
        if isinstance(found, griffe.Function):
            self._offer("function", name, found, aliases)
            return
        kind = kind_of_class(found)
        self._offer(kind, name, found, aliases)
        if kind == "class" or kind in self.scope.kinds:
            for member, method in _methods(found, public):
                its_kind: Kind = "property" if _is_property(method) else "method"
                self._offer(its_kind, f"{name}.{member}", method, [])

    def _offer(
        self,
        kind: Kind,
        name: str,
        found: Found | griffe.Attribute,
        aliases: list[str],
    ) -> None:
        """Take one as a tool, or count why it is none."""
        text = _docstring(found)
        if not text.strip():
            if kind in self.scope.kinds:
                self.undocumented.append(name)
                self.left_out.add(_NO_DOCSTRING, name)
            return
        if kind not in self.scope.kinds:
            self.other_kinds[kind] += 1
            self.left_out.add(f"kind {kind}", name)
            return
        tool = _make(kind, name, found, text, self._label)
        is_bare = kind == "class" and not tool.parameters["properties"]
        if is_bare and not self.scope.every_class:
            self.left_out.add(_NO_ARGUMENTS, name)
            return
        self.tools.setdefault(
            name, tool.model_copy(update={"aliases": tuple(sorted(aliases))})
        )


def _methods(
    cls: griffe.Class, public: Collection[str]
) -> Iterator[tuple[str, griffe.Function | griffe.Attribute]]:
    """The public methods and properties of a class, and of its bases that are not public."""
    hidden = [base for base in base_classes(cls) if base.path not in public]
    members: dict[str, griffe.Object | griffe.Alias] = {}
    for one in (*reversed(hidden), cls):
        members |= one.members
    for name, value in sorted(members.items()):
        if not name.startswith("_") and (
            isinstance(value, griffe.Function) or _is_property(value)
        ):
            yield name, value


def _docstring(found: Found | griffe.Attribute) -> str:
    """Its docstring, or, of a method that overrides another, that one's."""
    owner = found.parent
    bases = base_classes(owner) if isinstance(owner, griffe.Class) else []
    inherited = [base.members.get(found.name) for base in bases]
    for one in (found, *inherited):
        if isinstance(one, griffe.Object) and one.docstring is not None:
            return one.docstring.value
    return ""


def _is_property(
    value: griffe.Object | griffe.Alias,
) -> TypeGuard[griffe.Function | griffe.Attribute]:
    if isinstance(value, griffe.Attribute):
        return "property" in value.labels
    return isinstance(value, griffe.Function) and any(
        str(one.value).endswith(("property", "reify")) for one in value.decorators
    )


def _make(
    kind: Kind, name: str, found: Found | griffe.Attribute, text: str, source: str
) -> Tool:
    documented = read_docstring(text)
    signature = Signature()
    if isinstance(found, griffe.Function):
        signature = _signature(list(found.parameters), found.returns)
    elif isinstance(found, griffe.Class):
        init = found.all_members.get("__init__") or found.all_members.get("__new__")
        made_by = list(getattr(init, "parameters", None) or found.parameters)
        signature = _signature(made_by[1:], None)
        if not documented.parameters and init is not None and init.docstring:
            described = read_docstring(init.docstring.value).parameters
            documented = replace(documented, parameters=described)
    tool_kind: ToolKind = "class"
    if kind == "function" or kind == "method" or kind == "property":
        tool_kind = kind
    return make_tool(name, tool_kind, documented, signature, source)


def _signature(
    parameters: list[griffe.Parameter], returns: str | griffe.Expr | None
) -> Signature:
    """The signature as `inspect.signature` writes it."""
    kinds = griffe.ParameterKind
    written: list[str] = []
    previous = None
    for one in parameters:
        if previous is kinds.positional_only and one.kind is not previous:
            written.append("/")
        is_first_keyword = one.kind is kinds.keyword_only and previous not in (
            kinds.keyword_only,
            kinds.var_positional,
        )
        if is_first_keyword:
            written.append("*")
        written.append(_write(one))
        previous = one.kind
    if previous is kinds.positional_only:
        written.append("/")
    read = read_signature(f"({', '.join(written)})")
    schemas = {one.name: read_annotation(one.annotation) for one in parameters}
    known = (replace(one, schema=schemas.get(one.name)) for one in read.parameters)
    read = replace(read, parameters=tuple(known))
    return replace(read, text=f"{read.text} -> {_plain(returns)}") if returns else read


def _write(one: griffe.Parameter) -> str:
    text = f"{_VARIADIC.get(one.kind, '')}{one.name}" if one.kind else one.name
    if one.annotation is not None:
        text += f": {_plain(one.annotation)}"
    if one.default is None or one.kind in _VARIADIC:
        return text
    return f"{text} = {one.default}" if one.annotation else f"{text}={one.default}"


def _plain(annotation: str | griffe.Expr) -> str:
    """An annotation without the modules that those who write it know: `t.Optional[int]`."""
    return _TYPING.sub("", str(annotation))
