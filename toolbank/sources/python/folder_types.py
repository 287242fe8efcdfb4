"""The classes that annotations in a folder of source name, and their JSON Schemas."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import griffe

from toolbank.sources.documented import Signature, read_signature
from toolbank.sources.python.annotated import WRAPPERS, told_by_annotation
from toolbank.sources.python.settings import Kind
from toolbank.sources.typetext import (
    Parameter,
    is_literal,
    literal,
    literal_or_none,
    parameters_schema,
    schema_of,
)

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_RECORDS = frozenset({"BaseModel", "NamedTuple", "TypedDict"})
_ERRORS = ("Error", "Exception", "Warning", "Interrupt", "Exit")


def kind_of_class(cls: griffe.Class) -> Kind:
    """Return the kind of a class as `recipe_kind` does, as far as its source shows it."""
    classes = lineage(cls)
    named = {last_name(base) for one in classes for base in one.bases}
    if any(name.endswith(_ERRORS) for name in named):
        return "exception"
    if named & _ENUMS:
        return "enum"
    is_record = any("dataclass" in one.labels for one in classes)
    return "record" if is_record or named & _RECORDS else "class"


def lineage(cls: griffe.Class) -> list[griffe.Class]:
    """Return a class and its bases that are in the folder, nearest first, if they are known."""
    try:
        return [cls, *cls.mro()]
    except (ValueError, griffe.GriffeError):
        return [cls]


def _unwrap(annotation: Any) -> tuple[Any, set[str]]:
    """The type that `Annotated`, `Required` and the like hold, and the names of these."""
    names: set[str] = set()
    while isinstance(annotation, griffe.ExprSubscript):
        name = last_name(annotation.left)
        if name not in WRAPPERS:
            break
        names.add(name)
        annotation = _first(annotation.slice)
    return annotation, names


def _first(inner: str | griffe.Expr) -> str | griffe.Expr:
    """The first of the types in brackets."""
    # `tuple[()]` has none.
    return next(iter(getattr(inner, "elements", ())), inner)


def last_name(base: str | griffe.Expr) -> str:
    """Return the name at the end of "a.b.Name[int]"."""
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
        found = class_of(part)
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
        shared[record.path] = parameters_schema(_fields(record, shared))
    reference = {"$ref": f"#/$defs/{record.path}"}
    return {"type": "array", "items": reference} if is_list else reference


def _fields(record: griffe.Class, shared: dict[str, Any]) -> Iterable[Parameter]:
    properties = {
        name: _property(member, shared, may_lack=one.keywords.get("total") == "False")
        for one in reversed(lineage(record))
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


def find_named(part: Any) -> Any:
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


_TYPING = re.compile(r"\b(?:typing|typing_extensions|collections\.abc|t|te)\.(?=[A-Z])")
_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "Optional"})


def class_of(expression: str | griffe.Expr | None) -> griffe.Class | None:
    """The class of the folder that an annotation names, or that a call creates."""
    match expression:
        case griffe.ExprCall(function=called):
            return class_of(called)
        case griffe.ExprBinOp(left=left, right=right):
            return class_of(left) or class_of(right)
        case griffe.ExprSubscript(left=left, slice=inner):
            is_wrapper = last_name(left) in _WRAPPERS
            return class_of(_first(inner) if is_wrapper else left)
        case griffe.ExprName() | griffe.ExprAttribute():
            found = find_named(getattr(expression, "last", expression))
            return found if isinstance(found, griffe.Class) else None
    return None


def signature_of(
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
                if last_name(left) == "Annotated":
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
    record = class_of(annotation.slice)
    if record is None or last_name(annotation.left) != "Unpack":
        return []
    shared: dict[str, Any] = {}
    fields = [*_fields(record, shared)]  # fills `shared`
    return [
        replace(one, schema=one.schema and {**one.schema, "$defs": shared})
        for one in fields
    ]
