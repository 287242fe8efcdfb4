"""Read the tools of a folder of Python source without running any of it."""

from __future__ import annotations

import ast
import builtins
import logging
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, TypeGuard, cast

import griffe

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import Tool, ToolKind
from toolbank.sources.documented import Signature, read_signature
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.annotated import WRAPPERS, told_by_annotation
from toolbank.sources.python.docstring import is_marked_private, read_docstring
from toolbank.sources.python.exports import ModuleExports, read_exports
from toolbank.sources.python.folder_files import NO_API, find_broken, find_roots
from toolbank.sources.python.folder_loader import FolderLoader
from toolbank.sources.python.settings import (
    EXCLUDED,
    Kind,
    PackageScope,
    PythonSource,
    describe_left_out,
)
from toolbank.sources.python.walk import (
    MARKED_PRIVATE,
    OWN_TESTS,
    PROPERTY,
    make_tool,
    rank_path,
)
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


def _unwrap(annotation: Any) -> tuple[Any, set[str]]:
    """The type that `Annotated`, `Required` and the like hold, and the names of these."""
    names: set[str] = set()
    while isinstance(annotation, griffe.ExprSubscript):
        name = _last(annotation.left)
        if name not in WRAPPERS:
            break
        names.add(name)
        annotation = _first(annotation.slice)
    return annotation, names


def _first(inner: str | griffe.Expr) -> str | griffe.Expr:
    """The first of the types in brackets."""
    # `tuple[()]` has none.
    return next(iter(getattr(inner, "elements", ())), inner)


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
    annotation, _ = _unwrap(annotation)
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
    return parameters_schema(_fields(record, shared))


def _fields(record: griffe.Class, shared: dict[str, Any]) -> Iterable[Parameter]:
    lineage = [record, *base_classes(record)]
    properties = {
        name: _property(member, shared, may_lack=one.keywords.get("total") == "False")
        for one in reversed(lineage)
        for name, member in one.members.items()
        if isinstance(member, griffe.Attribute)
        and "instance-attribute" in member.labels
        and member.annotation is not None
        and not name.startswith("_")
    }
    return properties.values()


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
    _restore_texts(member.annotation)
    _, said = _unwrap(member.annotation)
    may_lack = "NotRequired" in said or (may_lack and "Required" not in said)
    one = Parameter(
        member.name,
        classifier=str(member.annotation).strip("'\""),
        description=_text(given.get("description")) or " ".join(paragraph.split()),
        default=literal_or_none(str(value)),
        required=is_missing and not may_lack,
        schema=_read(member.annotation, shared),
    )
    return told_by_annotation(one)


def _text(value: Any) -> str:
    """The value of an expression that is a string literal, else ""."""
    try:
        text = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def _find_class(part: Any) -> griffe.Class | None:
    """The class of the folder that a part of an annotation names, if any."""
    found = _find_named(part)
    return found if isinstance(found, griffe.Class) else None


def _find_named(part: Any) -> Any:
    """The object of the folder that an expression names, if it is only a name."""
    try:
        named = part.resolved if isinstance(part, griffe.ExprName) else None
        return named.final_target if isinstance(named, griffe.Alias) else named
    except Exception:  # names from outside the folder can't be resolved
        return None


def _list_values(found: griffe.Class) -> str:
    """An enum as "Literal['small', 'large']", or "" if its values are not literals."""
    values = [
        str(member.value)
        for key, member in found.members.items()
        if isinstance(member, griffe.Attribute) and not key.startswith("_")
    ]
    are_literal = values and all(is_literal(literal(value)) for value in values)
    return f"Literal[{', '.join(values)}]" if are_literal else ""


GriffeObject = griffe.Class | griffe.Function | griffe.Module
GriffeMember = GriffeObject | griffe.Attribute


@dataclass
class PublicSource:
    """An object in a folder and its public names, best first.

    `is_private` and `is_deep` mean what they do for a `PublicObject`. An instance of a class takes
    the arguments of `call` and, without documentation of its own, has its text or the class's.
    """

    value: GriffeMember
    names: list[str] = field(default_factory=list)
    is_private: bool = False
    is_deep: bool = True
    instance_of: griffe.Class | None = None
    call: griffe.Function | None = None


def find_public(
    root: griffe.Module, scope: PackageScope, left_out: SkipCounter
) -> dict[str, PublicSource]:
    """Return the public objects of a package or module by the place of their definition.

    A name is public by the rules of `walk_package`. The best name is the shortest, and among these
    the one nearest to the definition.
    """
    found: dict[str, PublicSource] = {}
    instances: dict[str, griffe.Class] = {}
    for name, value, is_deep in _walk(root, scope, left_out):
        if isinstance(value, griffe.Attribute):
            cls = _class_of(value.value)
            if cls is None:
                continue
            instances[name] = cls
            call = cls.all_members.get("__call__")
            if call is None and "__getitem__" not in cls.all_members:
                continue
            function = call if isinstance(call, griffe.Function) else None
            one = PublicSource(value, instance_of=cls, call=function)
        else:
            one = PublicSource(value)
        one = found.setdefault(value.path, one)
        if name not in one.names:
            one.names.append(name)
        one.is_deep = one.is_deep and is_deep
    for path, one in found.items():
        one.names.sort(key=partial(_rank, path))
    _find_parts(found, instances, scope)
    return dict(sorted(found.items()))


def _find_parts(
    found: dict[str, PublicSource],
    instances: Mapping[str, griffe.Class],
    scope: PackageScope,
) -> None:
    """Add the private classes of public instances and of attributes of classes (`take_parts`)."""
    waiting = [one for one in found.values() if isinstance(one.value, griffe.Class)]
    bases: set[str] = set()

    def add(name: str, cls: griffe.Class | None) -> None:
        if cls is None or not _is_hidden(cls) or not scope.looks_into(name):
            return
        if cls.path not in found:
            found[cls.path] = PublicSource(cls, is_private=True)
            waiting.append(found[cls.path])
        if found[cls.path].is_private:
            found[cls.path].names.append(name)

    for name, cls in instances.items():
        add(name, cls)
    for owner in waiting:
        cls = cast(griffe.Class, owner.value)
        if kind_of_class(cls) not in {"class", *scope.kinds}:
            continue
        for base in (cls, *base_classes(cls)):
            for name, member in sorted(base.members.items()):
                if isinstance(member, griffe.Attribute) and not name.startswith("_"):
                    held = _class_of(member.annotation) or _class_of(member.value)
                    add(f"{owner.names[0]}.{name}", held)
        if not owner.is_private:
            bases |= {base.path for base in base_classes(cls)}
    for path in bases:
        if path in found and found[path].is_private:
            del found[path]


_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "Optional"})


def _class_of(expression: str | griffe.Expr | None) -> griffe.Class | None:
    """The class of the folder that an annotation names, or that a call creates."""
    match expression:
        case griffe.ExprCall(function=called):
            return _class_of(called)
        case griffe.ExprAttribute():
            return _find_class(expression.last)
        case griffe.ExprBinOp(left=left, right=right):
            return _class_of(left) or _class_of(right)
        case griffe.ExprSubscript(left=left, slice=inner):
            is_wrapper = _last(left) in _WRAPPERS
            return _class_of(_first(inner) if is_wrapper else left)
        case griffe.ExprName():
            return _find_class(expression)
    return None


def _is_hidden(cls: griffe.Class) -> bool:
    """Whether a class can't be imported by a public name from its own module."""
    return any(part.startswith("_") for part in cls.path.split("."))


def _rank(definition: str, path: str) -> tuple[int, bool, bool, int, str]:
    home, _, own = definition.rpartition(".")
    return rank_path(path, home, own)


def _walk(
    root: griffe.Module, scope: PackageScope, left_out: SkipCounter
) -> Iterator[tuple[str, GriffeMember, bool]]:
    """Yield what each module names, shortest paths first, and whether the module is deep."""
    waiting = [(root.path, root, False)]
    seen: set[str] = set()
    while waiting:
        path, module, is_deep = waiting.pop(0)
        # A link may lead to a folder above it.
        file = module.filepath
        place = file.resolve() if isinstance(file, Path) else None
        if str(place or file) in seen:
            continue
        seen.add(str(place or file))
        exports, declared = read_exports(_text_of(place)), _declared(module)
        lazy = _find_lazy(module, exports)
        members = {**lazy, **module.members}
        for name, member, value in _resolve_all(members, declared or ()):
            full = f"{path}.{name}"
            if isinstance(value, griffe.Attribute):  # it may be another name: g = f
                named = _find_named(value.value)
                is_alias = isinstance(named, griffe.Class | griffe.Function)
                value = named if is_alias else value
            if value is None or not f"{value.path}.".startswith(f"{root.path}."):
                continue
            if not _is_public(member, name, module, declared, exports):
                continue
            if not scope.looks_into(full):
                left_out.add(EXCLUDED, full)
                continue
            if isinstance(value, griffe.Module):
                child_is_deep = is_deep or _is_deep(value, name, module, declared)
                waiting.append((full, value, child_is_deep))
                yield full, value, child_is_deep
            elif name == "test" and not isinstance(value, griffe.Class):
                left_out.add(OWN_TESTS, full)
            elif isinstance(value, GriffeMember):
                yield full, value, is_deep


def _resolve_all(
    members: Mapping[str, griffe.Object | griffe.Alias], declared: Container[str]
) -> Iterator[tuple[str, griffe.Object | griffe.Alias, griffe.Object | None]]:
    """Yield the names of a module, sorted, their members, and the objects these refer to.

    A sub-module whose name its package gives to another object comes after that.
    """
    for name, member in sorted(members.items()):
        value = _resolve(member)
        is_alias = isinstance(member, griffe.Alias)
        if isinstance(value, griffe.Module) and (namesake := _namesake(value)):
            yield name, member if is_alias else namesake, namesake
            if is_alias or name in declared:
                continue
        yield name, member, value


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


def _text_of(place: Path | None) -> str:
    with suppress(OSError, UnicodeDecodeError):
        if place and place.is_file():
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


def _resolve(member: griffe.Object | griffe.Alias) -> griffe.Object | None:
    """The object that a name refers to; None if it is in another package or missing."""
    try:
        return member.final_target if isinstance(member, griffe.Alias) else member
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def _is_public(
    member: griffe.Object | griffe.Alias,
    name: str,
    module: griffe.Module,
    declared: set[str] | None,
    exports: ModuleExports,
) -> bool:
    if isinstance(member, griffe.Module):
        is_api = not (name.startswith("_") or name in NO_API)
        return is_api or name in (declared or ())
    if declared is not None:
        return name in declared and not name.startswith("__")
    if name.startswith("_") or exports.lazy or not isinstance(member, griffe.Alias):
        return not name.startswith("_")
    is_private = any(part.startswith("_") for part in member.target_path.split("."))
    is_own = module.is_init_module or (is_private and exports.offers(name))
    return is_own and member.runtime


def _declared(module: griffe.Module) -> set[str] | None:
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
    return names


def _is_deep(
    child: griffe.Module, name: str, module: griffe.Module, declared: set[str] | None
) -> bool:
    """Whether a package does not present a sub-module, as for `walk_package`."""
    if declared is None or name in declared or child.exports is not None:
        return False
    return not declared.isdisjoint(module.modules) or child.docstring is None


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
        reader.left_out, reader.scope.kinds, reader.undocumented, methods=config.methods
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
        self.problems: list[str] = []
        self._label = label

    def read(self, home: Path, name: str) -> None:
        """Read a package or module."""
        for path, why in find_broken(home, name):
            self._skip(path.relative_to(home).as_posix(), why)
        logging.getLogger("griffe").setLevel(logging.CRITICAL)
        loader = FolderLoader(home)
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
            public = find_public(root, self.scope, self.left_out)
            for found in public.values():
                self._take(found, public)

    def _skip(self, place: str, why: str) -> None:
        self.left_out.add(_BROKEN, place)
        self.problems.append(f"{self._label}: {_BROKEN}, left out: {place}, {why}")

    def _take(self, found: PublicSource, public: Mapping[str, PublicSource]) -> None:
        value = found.value
        if isinstance(value, griffe.Attribute):
            kind: Kind = "function" if found.call else "object"
            self._offer(kind, found.names, value, instance=found)
        elif isinstance(value, griffe.Class):
            kind = kind_of_class(value)
            if is_marked_private(_docstring(value)):
                self.left_out.add(MARKED_PRIVATE, found.names[0])
                return
            if not found.is_private:
                self._offer(kind, found.names, value)
            if kind == "class" or kind in self.scope.kinds:
                for member, method in _methods(found, public):
                    its_kind: Kind = "property" if _is_property(method) else "method"
                    names = [f"{name}.{member}" for name in found.names]
                    self._offer(its_kind, names, method, is_member=True)
        else:
            kind = "module" if isinstance(value, griffe.Module) else "function"
            self._offer(kind, found.names, value)

    def _offer(
        self,
        kind: Kind,
        names: list[str],
        found: GriffeMember,
        *,
        is_member: bool = False,
        instance: PublicSource | None = None,
    ) -> None:
        """Add an object as a tool, or count the reason why it is none."""
        name, *aliases = names
        text = _docstring(found)
        call = instance and instance.call
        for one in (call, instance and instance.instance_of):
            text = text or (_docstring(one) if one else "")
        is_parent = not (is_member or self.scope.parents.isdisjoint(names))
        if is_parent or self.scope.leaves_out(*names):
            if kind in self.scope.kinds:
                self.left_out.add(EXCLUDED, name)
            return
        if is_marked_private(text):
            self.left_out.add(MARKED_PRIVATE, name)
            return
        if not text.strip():
            if kind in self.scope.kinds and kind != "class":
                self.undocumented.append(name)
            self.left_out.add(_NO_DOCSTRING, name)
            return
        if kind not in self.scope.kinds:
            self.left_out.add(f"kind {kind}", name)
            return
        tool = _make(kind, name, call or found, text, self._label)
        is_bare = kind == "class" and not tool.parameters["properties"]
        if is_bare and not self.scope.every_class:
            self.left_out.add(_NO_ARGUMENTS, name)
            return
        other_names = {"aliases": () if is_member else tuple(sorted(aliases))}
        self.tools.setdefault(name, tool.model_copy(update=other_names))


def _methods(
    owner: PublicSource, public: Mapping[str, PublicSource]
) -> Iterator[tuple[str, griffe.Function | griffe.Attribute]]:
    """Public methods and properties of a class, and of bases that are not public themselves."""
    cls = cast(griffe.Class, owner.value)
    listed: set[str] = set()
    for base in base_classes(cls):
        item = public.get(base.path)
        if item and not item.is_private and (owner.is_deep or not item.is_deep):
            listed |= {base.path, *(one.path for one in base_classes(base))}
    hidden = [base for base in base_classes(cls) if base.path not in listed]
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
    if isinstance(found, griffe.Class):
        inherited = [found.members.get("__init__")]
    overloads = (found.overloads or ()) if isinstance(found, griffe.Function) else ()
    for one in (found, *inherited, *overloads):
        if isinstance(one, griffe.Object) and one.docstring is not None:
            return one.docstring.value
    return ""


def _is_property(
    value: griffe.Object | griffe.Alias,
) -> TypeGuard[griffe.Function | griffe.Attribute]:
    if isinstance(value, griffe.Attribute):
        return "property" in value.labels
    return isinstance(value, griffe.Function) and any(
        PROPERTY.search(_last(str(one.value).partition("(")[0]))
        for one in value.decorators
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
    for one in parameters:
        _restore_texts(one.annotation)
    function = griffe.Function("f", parameters=griffe.Parameters(*parameters))
    # Everyone knows `Optional`, whatever `typing` is imported as.
    read = read_signature(_TYPING.sub("", function.signature()))
    schemas = {one.name: read_annotation(one.annotation) for one in parameters}
    known = [
        replace(one, schema=schemas.get(one.name))
        for one in read.parameters
        if one.required or not one.name.lstrip("*").startswith("_")
    ]
    if known and known[-1].name.startswith("**"):
        known[-1:] = _unpacked(parameters[-1].annotation) or known[-1:]
    text = f"{read.text} -> {_TYPING.sub('', str(returns))}" if returns else read.text
    return Signature(text, tuple(known))


def _restore_texts(annotation: Any) -> None:
    """Make texts of the words in `Annotated[int, "height"]` that name nothing.

    griffe takes a text that could be a name for an annotation in quotes.
    """
    if not isinstance(annotation, griffe.Expr):
        return
    for part in (annotation, *annotation.iterate(flat=False)):
        match part:
            case griffe.ExprSubscript(left=left, slice=griffe.ExprTuple() as inner):
                if _last(left) == "Annotated":
                    first, *said = inner.elements
                    inner.elements = [first, *map(_restore_text, said)]


def _restore_text(said: str | griffe.Expr) -> str | griffe.Expr:
    if not isinstance(said, griffe.ExprName) or hasattr(builtins, said.name):
        return said
    return repr(said.name) if said.canonical_path == said.name else said


def _unpacked(annotation: Any) -> list[Parameter]:
    """The keywords of `**kwargs: Unpack[Options]`, if it is a record of the folder."""
    if not isinstance(annotation, griffe.ExprSubscript):
        return []
    record = _class_of(annotation.slice)
    if record is None or _last(annotation.left) != "Unpack":
        return []
    shared: dict[str, Any] = {}
    fields = [*_fields(record, shared)]  # fills `shared`
    return [
        replace(one, schema=one.schema and {**one.schema, "$defs": shared})
        for one in fields
    ]
