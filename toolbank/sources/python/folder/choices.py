"""The values of enumerations that annotate parameters in source."""

from __future__ import annotations

from typing import Any

import griffe

from toolbank.sources.python.folder.kinds import kind_of_class
from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.parameters import schema_of


def read_choices(annotation: str | griffe.Expr | None) -> dict[str, Any] | None:
    """The JSON Schema of an annotation with the values of its enumerations; None without any."""
    if not isinstance(annotation, griffe.Expr):
        return None
    parts = [
        (isinstance(part, griffe.ExprName) and _list_values(part)) or str(part)
        for part in annotation.iterate(flat=True)
    ]
    text = "".join(parts)
    return None if text == str(annotation) else schema_of(text)


def _list_values(name: griffe.ExprName) -> str:
    """An enumeration as "Literal['small', 'large']"; "" where its values are no literals."""
    try:
        named = name.resolved
        found = named.final_target if isinstance(named, griffe.Alias) else named
    except Exception:  # a name of elsewhere has no meaning here
        return ""
    if not isinstance(found, griffe.Class) or kind_of_class(found) != "enum":
        return ""
    values = [
        str(member.value)
        for key, member in found.members.items()
        if isinstance(member, griffe.Attribute) and not key.startswith("_")
    ]
    are_literal = values and all(is_literal(literal(value)) for value in values)
    return f"Literal[{', '.join(values)}]" if are_literal else ""
