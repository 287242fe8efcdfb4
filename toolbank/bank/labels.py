"""Verified labels: what people, models and checks found of the tools of a request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field

from toolbank.bank.files import read_records, write_records
from toolbank.bank.record import Record
from toolbank.bank.records import Query

Labels = Literal["verified", "first"]
"""Which labels of a request count where it has verified ones."""

Grade = Literal["needed", "alternative", "aside"]

GraderKind = Literal["", "check", "model", "person"]
"""Who gave a label; of two, the later one in this list counts. "" in files of earlier versions."""


class Label(Record):
    """What a tool is to a request, and why.

    A tool that is `needed`; an `alternative`, which serves as well as the needed tool that it
    `stands_for`; or, with no tool, that the request is set `aside`: it is nothing to learn from.
    Tools without a row are not needed. `kind` and `source` name who says so: a person's file, a
    model, or a check.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    query: str
    tool: str = ""
    grade: Grade
    stands_for: str = Field(default="", alias="for")
    reason: str = ""
    kind: GraderKind = ""
    source: str = ""

    @classmethod
    def alternative(cls, query: str, tool: str, stands_for: str, reason: str) -> Self:
        """One of a tool that may stand for a needed one."""
        content = {"query": query, "tool": tool, "for": stands_for, "reason": reason}
        return cls.model_validate({**content, "grade": "alternative"})


@dataclass
class Verified:
    """The labels of one request: its needed tools, and what may take the place of each.

    `aside` is the reason why it is set aside, "" where it is not.
    """

    needed: list[str] = field(default_factory=list)
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    aside: str = ""

    @property
    def all_alternatives(self) -> tuple[str, ...]:
        """Those of any needed tool, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(self.alternatives.values())))


def group_labels(labels: Iterable[Label]) -> Mapping[str, Verified]:
    """The labels by the id of their request."""
    of: defaultdict[str, Verified] = defaultdict(Verified)
    for label in labels:
        verified = of[label.query]
        if label.grade == "aside":
            verified.aside = label.reason or "set aside"
        elif label.grade == "needed":
            verified.needed.append(label.tool)
        else:
            verified.alternatives.setdefault(label.stands_for, []).append(label.tool)
    return dict(of)


class LabelledQuery(Query):
    """A query for people to use: `tools` by its merged labels, `tools_first` as first labelled."""

    tools_first: tuple[str, ...] = ()


def apply_labels(query: Query, verified: Verified | None) -> LabelledQuery:
    """The query with the tools that its merged labels need; without labels, its first ones."""
    tools = (tuple(verified.needed) if verified else ()) or query.tools
    row = dict(query)
    return LabelledQuery(**{**row, "tools": tools, "tools_first": query.tools})


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a labels.parquet, atomically; same labels, same bytes."""
    write_records(path, Label, labels)


def read_labels(path: Path) -> tuple[Label, ...]:
    """Read a labels.parquet; a bank without the file has none.

    Raises:
        InputError: the file is damaged, or not of this layout.
    """
    return tuple(read_records(path, Label)) if path.exists() else ()
