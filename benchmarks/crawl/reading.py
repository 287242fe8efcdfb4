"""What a page says of one object, in a form that a page's reader and a tool both fill in.

A fact has a key (a parameter's path, an exception's name, ...) and a value. Where a page's text can
fairly be kept in more than one way (with or without the word "Note" above a note), the value is the
set of those.
"""

import re
from dataclasses import dataclass, field

Texts = frozenset[str]


@dataclass
class Field:
    """A parameter or a member of one; `path` tells the depth: `Tags[].Key`, `Attributes{}`."""

    path: str
    type: str = ""
    required: bool = False
    description: Texts = frozenset()
    default: object = ...
    enum: tuple[object, ...] = ()


@dataclass
class Reading:
    """All that a page says of one object."""

    summary: str = ""
    prose: Texts = frozenset()
    parameters: list[Field] = field(default_factory=list)
    returns: list[Field] = field(default_factory=list)
    structure: list[Field] = field(default_factory=list)
    raises: dict[str, Texts] = field(default_factory=dict)
    see_also: list[tuple[str, str]] = field(default_factory=list)
    versions: dict[tuple[str, str, str], Texts] = field(default_factory=dict)
    deprecated: Texts = frozenset()
    examples: Texts = frozenset()
    sections: dict[str, Texts] = field(default_factory=dict)
    request: dict[str, tuple[object, ...]] = field(default_factory=dict)
    response: dict[str, tuple[object, ...]] = field(default_factory=dict)


def condensed(text: str) -> str:
    """A text without spacing, and without what marks items, cells and terms."""
    return re.sub(r"[|:()\u2013-]", "", tight(text))


def tight(text: str) -> str:
    """A text without spacing, and without what marks formulas."""
    return re.sub(r"\s+|\\[()\[\]]", "", text)
