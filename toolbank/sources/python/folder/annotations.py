"""What annotations in source say of values: choices of enumerations, properties of records."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

from toolbank.sources.python.folder.kinds import base_classes, kind_of_class
from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.parameters import Parameter, parameters_schema, schema_of

_FIELDS = ("Field", "pydantic.Field", "field", "dataclasses.field")
"""What a record sets its properties by, of pydantic and of dataclasses."""
_MOST_RECORDS = 20
"""That an argument leads to; those beyond are told by their names."""
_NAMED = re.compile(r"([\w.]+\[)?(?:\w+\.)*(\w+)\]?")
"""A class, or a list of it, as the format of a schema has them."""


def read_annotation(annotation: str | griffe.Expr | None) -> dict[str, Any] | None:
    """The JSON Schema of an annotation that names enumerations, models or records of the folder.

    None where it names none. Those that hold properties stand in its own `$defs`, by import path.
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
    said: dict[str, Any] = {}
    if isinstance(value, griffe.ExprCall) and str(value.function) in _FIELDS:
        said = dict(
            (one.name, one.value)
            if isinstance(one, griffe.ExprKeyword)
            else ("default", one)
            for one in value.arguments
        )
        value = said.get("default", said.get("default_factory"))
    is_missing = value is None or str(value) == "..."
    default = literal(str(value))
    paragraph = member.docstring.value.partition("\n\n")[0] if member.docstring else ""
    return Parameter(
        member.name,
        classifier=str(member.annotation).strip("'\""),
        description=_text(said.get("description")) or " ".join(paragraph.split()),
        default=default if is_literal(default) else None,
        required=is_missing and not may_lack,
        schema=_read(member.annotation, shared),
    )


def _text(value: Any) -> str:
    """The text that an expression writes; "" for any other."""
    try:
        text = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def _find_class(part: str | griffe.Expr) -> griffe.Class | None:
    """The class of the folder that a part of an annotation names."""
    if not isinstance(part, griffe.ExprName):
        return None
    try:
        named = part.resolved
        found = named.final_target if isinstance(named, griffe.Alias) else named
    except Exception:  # a name of elsewhere has no meaning here
        return None
    return found if isinstance(found, griffe.Class) else None


def _list_values(found: griffe.Class) -> str:
    """An enumeration as "Literal['small', 'large']"; "" where its values are no literals."""
    values = [
        str(member.value)
        for key, member in found.members.items()
        if isinstance(member, griffe.Attribute) and not key.startswith("_")
    ]
    are_literal = values and all(is_literal(literal(value)) for value in values)
    return f"Literal[{', '.join(values)}]" if are_literal else ""
