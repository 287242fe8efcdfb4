"""What kind of thing a class in source is, by its bases and decorators."""

from __future__ import annotations

import griffe

from toolbank.sources.python.kinds import Kind

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_RECORDS = frozenset({"BaseModel", "NamedTuple", "TypedDict"})
_ERRORS = ("Error", "Exception", "Warning", "Interrupt", "Exit")


def kind_of_class(cls: griffe.Class) -> Kind:
    """As `recipe_kind` tells of classes that are imported, as far as their text does."""
    lineage = [cls, *base_classes(cls)]
    named = {_last(base) for one in lineage for base in one.bases}
    if any(name.endswith(_ERRORS) for name in named):
        return "exception"
    if named & _ENUMS:
        return "enum"
    is_record = any("dataclass" in one.labels for one in lineage)
    return "record" if is_record or named & _RECORDS else "class"


def base_classes(cls: griffe.Class) -> list[griffe.Class]:
    """The bases of a class that are in the folder, nearest first; none where they can't be told."""
    try:
        return cls.mro()
    except (ValueError, griffe.GriffeError):
        return []


def _last(base: str | griffe.Expr) -> str:
    return str(base).partition("[")[0].rpartition(".")[2]
