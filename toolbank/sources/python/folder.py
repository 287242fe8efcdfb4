"""Read the tools of a folder of Python source without running any of it."""

from __future__ import annotations

import ast
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, cast

import griffe

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import Tool, ToolKind
from toolbank.sources.documented import Signature, read_signature
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.docstring import read_docstring
from toolbank.sources.python.folder_files import find_broken, find_roots, is_api
from toolbank.sources.python.settings import (
    Kind,
    PackageScope,
    PythonSource,
    describe_left_out,
)
from toolbank.sources.python.walk import make_tool, rank_path
from toolbank.sources.site import covers
from toolbank.sources.typetext import (
    Parameter,
    is_literal,
    literal,
    literal_or_none,
    parameters_schema,
    schema_of,
)
from toolbank.system.errors import InputError

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_RECORDS = frozenset({"BaseModel", "NamedTuple", "TypedDict"})
_ERRORS = ("Error", "Exception", "Warning", "Interrupt", "Exit")


def kind_of_class(cls: griffe.Class) -> Kind:
    """Return the kind of a class as `recipe_kind` does, as far as its source shows it."""
    lineage = [cls, *base_classes(cls)]
    named = {_last(base) for one in lineage for base in one.bases}
    if any(name.endswith(_ERRORS) for name in named):
        return "exception"
    if named & _ENUMS:
        return "enum"
    is_record = any("dataclass" in one.labels for one in lineage)
    return "record" if is_record or named & _RECORDS else "class"


def base_classes(cls: griffe.Class) -> list[griffe.Class]:
    """Return the bases of a class that are in the folder, nearest first, if they are known."""
    try:
        return cls.mro()
    except (ValueError, griffe.GriffeError):
        return []


def _last(base: str | griffe.Expr) -> str:
    return str(base).partition("[")[0].rpartition(".")[2]


_FIELDS = ("Field", "pydantic.Field", "field", "dataclasses.field")
"""Functions of pydantic and dataclasses that define a property of a record."""
_MOST_RECORDS = 20
"""Records described for one argument; further ones have only their names."""
_NAMED = re.compile(r"([\w.]+\[)?(?:\w+\.)*(\w+)\]?")
"""A class, or a list of it, in the `format` of a schema."""


def read_annotation(annotation: str | griffe.Expr | None) -> dict[str, Any] | None:
    """Return the JSON Schema of an annotation that names enums, models or records of the folder.

    None if it names none of them. Models and records are in its `$defs`, by import path.
    """
    shared: dict[str, Any] = {}
    schema = _read(annotation, shared)
    return {**schema, "$defs": shared} if schema and shared else schema


def _read(
    annotation: str | griffe.Expr | None, shared: dict[str, Any]
) -> dict[str, Any] | None:
    if not isinstance(annotation, griffe.Expr):
        return None
    parts: list[str] = []
    records: dict[str, griffe.Class] = {}
    for part in annotation.iterate(flat=True):
        found = _find_class(part)
        kind = found and kind_of_class(found)
        if found and kind == "record":
            records[str(part)] = found
        values = _list_values(found) if found and kind == "enum" else ""
        parts.append(values or str(part))
    text = "".join(parts)
    if text == str(annotation) and not records:
        return None
    read: dict[str, Any] = _refer(schema_of(text), records, shared)
    return read


def _refer(value: Any, records: dict[str, griffe.Class], shared: dict[str, Any]) -> Any:
    """A schema with a reference wherever a record is named."""
    if isinstance(value, list):
        return [_refer(one, records, shared) for one in value]
    if not isinstance(value, dict):
        return value
    named = _NAMED.fullmatch(str(value.get("format", "")))
    record = records.get(named[2]) if named else None
    is_list = value.get("type") == "array"
    if not (named and record) or is_list != bool(named[1]):
        return {key: _refer(one, records, shared) for key, one in value.items()}
    if record.path not in shared:
        if len(shared) >= _MOST_RECORDS:
            return value
        shared[record.path] = {}  # it may hold one of its kind
        shared[record.path] = _describe(record, shared)
    reference = {"$ref": f"#/$defs/{record.path}"}
    return {"type": "array", "items": reference} if is_list else reference


def _describe(record: griffe.Class, shared: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a record by its properties, and those of its bases."""
    lineage = [record, *base_classes(record)]
    named = {str(base).rpartition(".")[2] for one in lineage for base in one.bases}
    properties = {
        name: _property(member, shared, may_lack="TypedDict" in named)
        for one in reversed(lineage)
        for name, member in one.members.items()
        if isinstance(member, griffe.Attribute)
        and "instance-attribute" in member.labels
        and member.annotation is not None
        and not name.startswith("_")
    }
    return parameters_schema(properties.values())


def _property(
    member: griffe.Attribute, shared: dict[str, Any], *, may_lack: bool
) -> Parameter:
    value: Any = member.value
    given: dict[str, Any] = {}
    if isinstance(value, griffe.ExprCall) and str(value.function) in _FIELDS:
        given = dict(
            (one.name, one.value)
            if isinstance(one, griffe.ExprKeyword)
            else ("default", one)
            for one in value.arguments
        )
        value = given.get("default", given.get("default_factory"))
    is_missing = value is None or str(value) == "..."
    paragraph = member.docstring.value.partition("\n\n")[0] if member.docstring else ""
    return Parameter(
        member.name,
        classifier=str(member.annotation).strip("'\""),
        description=_text(given.get("description")) or " ".join(paragraph.split()),
        default=literal_or_none(str(value)),
        required=is_missing and not may_lack,
        schema=_read(member.annotation, shared),
    )


def _text(value: Any) -> str:
    """The value of an expression that is a string literal, else ""."""
    try:
        text = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def _find_class(part: str | griffe.Expr) -> griffe.Class | None:
    """The class of the folder that a part of an annotation names, if any."""
    try:
        named = part.resolved if isinstance(part, griffe.ExprName) else None
        found = named.final_target if isinstance(named, griffe.Alias) else named
    except Exception:  # names from outside the folder can't be resolved
        return None
    return found if isinstance(found, griffe.Class) else None


def _list_values(found: griffe.Class) -> str:
    """An enum as "Literal['small', 'large']", or "" if its values are not literals."""
    values = [
        str(member.value)
        for key, member in found.members.items()
        if isinstance(member, griffe.Attribute) and not key.startswith("_")
    ]
    are_literal = values and all(is_literal(literal(value)) for value in values)
    return f"Literal[{', '.join(values)}]" if are_literal else ""


GriffeObject = griffe.Class | griffe.Function
GriffeMember = GriffeObject | griffe.Attribute


def find_public(
    root: griffe.Module, scope: PackageScope
) -> dict[str, tuple[GriffeObject, list[str]]]:
    """Return the public classes and functions of a package or module with names, best first.

    A name is public by the rules of `walk_package`. The best name is the shortest, and among these
    the one nearest to the definition.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    found: dict[str, GriffeObject] = {}
    for name, value in _walk(root, scope):
        found[value.path] = value
        if name not in names[value.path]:
            names[value.path].append(name)
    return {
        path: (value, sorted(names[path], key=partial(_rank, path)))
        for path, value in sorted(found.items())
    }


def _rank(definition: str, path: str) -> tuple[int, bool, bool, int, str]:
    home, _, own = definition.rpartition(".")
    return rank_path(path, home, own)


def _walk(
    root: griffe.Module, scope: PackageScope
) -> Iterator[tuple[str, GriffeObject]]:
    """Yield what each module names, shortest paths first; each file is read once."""
    waiting = [(root.path, root)]
    seen: set[str] = set()
    while waiting:
        path, module = waiting.pop(0)
        # A link may lead to a folder above it.
        file = module.filepath
        place = str(file.resolve() if isinstance(file, Path) else file)
        if place in seen:
            continue
        seen.add(place)
        for name, member in sorted(module.members.items()):
            full, value = f"{path}.{name}", _resolve(member)
            if value is None or not f"{value.path}.".startswith(f"{root.path}."):
                continue
            if isinstance(value, griffe.Module):
                is_in = scope.looks_into(full) and not covers(full, scope.exclude)
                if is_in and _is_public(member, name, module):
                    waiting.append((full, value))
            elif (
                isinstance(value, griffe.Class | griffe.Function)
                and _is_public(member, name, module)
                and not scope.leaves_out(full)
            ):
                yield full, value


def _resolve(member: griffe.Object | griffe.Alias) -> griffe.Object | None:
    """The object that a name refers to; None if it is in another package or missing."""
    try:
        return member.final_target if isinstance(member, griffe.Alias) else member
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def _is_public(
    member: griffe.Object | griffe.Alias, name: str, module: griffe.Module
) -> bool:
    is_named = module.exports is not None and name in map(str, module.exports)
    if isinstance(member, griffe.Module):
        return is_named or is_api(name)
    if module.exports is not None:
        return is_named and not name.startswith("__")
    is_own = not isinstance(member, griffe.Alias) or module.is_init_module
    return is_own and not name.startswith("_")


_BROKEN = "can't be parsed"
_NO_ARGUMENTS = "class that is made without arguments"
_NO_DOCSTRING = "without documentation"
_TYPING = re.compile(r"\b(?:typing|typing_extensions|collections\.abc|t|te)\.(?=[A-Z])")


def read_folder(config: PythonSource, folder: Path) -> ToolCollection:
    """Read the public functions, methods and classes of a folder, or the kinds of its scope.

    Files are parsed, and nothing is imported or run. A file that can't be parsed is skipped and
    reported with its line.

    Raises:
        InputError: it is no folder, or has no public and documented objects.
    """
    reader = _FolderReader(PackageScope.of(config), config.label)
    for home, name in find_roots(folder):
        reader.read(home, name)
    note = describe_left_out(
        reader.other_kinds,
        reader.scope.kinds,
        reader.undocumented,
        hidden=0,
        methods=config.methods,
    )
    if not reader.tools:
        details = [*reader.problems[:1], note and f"Found: {note}"]
        raise InputError(
            f"sources: {config.label}: {folder} has no public functions or classes with a "
            f"docstring. {' '.join(one + '.' for one in details if one)}".strip()
        )
    return ToolCollection(
        tuple(reader.tools[name] for name in sorted(reader.tools)),
        {
            "source": config.label,
            **reader.left_out.as_info(),
            "undocumented": sorted(reader.undocumented),
        },
        problems=tuple(reader.problems),
        notes=(f"{config.label}: {note}",) if note else (),
    )


class _FolderReader:
    """The tools of a folder, and the names that were skipped."""

    def __init__(self, scope: PackageScope, label: str) -> None:
        self.scope = scope
        self.tools: dict[str, Tool] = {}
        self.left_out = SkipCounter()
        self.undocumented: list[str] = []
        self.other_kinds: Counter[Kind] = Counter()
        self.problems: list[str] = []
        self._label = label

    def read(self, home: Path, name: str) -> None:
        """Read a package or module."""
        for path, why in find_broken(home, name):
            self._skip(path.relative_to(home).as_posix(), why)
        logging.getLogger("griffe").setLevel(logging.CRITICAL)
        loader = griffe.GriffeLoader(
            search_paths=[home], allow_inspection=False, store_source=False
        )
        try:
            root = loader.load(name, try_relative_path=False)
        except (RecursionError, MemoryError):
            self._skip(name, "a file of it is nested too deep")
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

    def _skip(self, place: str, why: str) -> None:
        self.left_out.add(_BROKEN, place)
        self.problems.append(f"{self._label}: {_BROKEN}, left out: {place}, {why}")

    def _take(
        self, found: GriffeObject, names: list[str], public: Collection[str]
    ) -> None:
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
        self, kind: Kind, name: str, found: GriffeMember, aliases: list[str]
    ) -> None:
        """Add an object as a tool, or count the reason why it is none."""
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
        other_names = {"aliases": tuple(sorted(aliases))}
        self.tools.setdefault(name, tool.model_copy(update=other_names))


def _methods(
    cls: griffe.Class, public: Collection[str]
) -> Iterator[tuple[str, griffe.Function | griffe.Attribute]]:
    """Public methods and properties of a class and of its private bases."""
    hidden = [base for base in base_classes(cls) if base.path not in public]
    members: dict[str, griffe.Object | griffe.Alias] = {}
    for one in (*reversed(hidden), cls):
        members |= one.members
    for name, value in sorted(members.items()):
        if not name.startswith("_") and (
            isinstance(value, griffe.Function) or _is_property(value)
        ):
            yield name, value


def _docstring(found: GriffeMember) -> str:
    """Its own docstring, or that of the method that it overrides."""
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


def _make(kind: Kind, name: str, found: GriffeMember, text: str, source: str) -> Tool:
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
    is_class = isinstance(found, griffe.Class)
    tool_kind = cast(ToolKind, "class" if is_class else kind)
    return make_tool(name, tool_kind, documented, signature, source)


def _signature(
    parameters: list[griffe.Parameter], returns: str | griffe.Expr | None
) -> Signature:
    """The signature as `inspect.signature` writes it, with annotations of the folder read."""
    function = griffe.Function("f", parameters=griffe.Parameters(*parameters))
    # Everyone knows `Optional`, whatever `typing` is imported as.
    read = read_signature(_TYPING.sub("", function.signature()))
    schemas = {one.name: read_annotation(one.annotation) for one in parameters}
    known = tuple(replace(one, schema=schemas.get(one.name)) for one in read.parameters)
    text = f"{read.text} -> {_TYPING.sub('', str(returns))}" if returns else read.text
    return Signature(text, known)
