"""A bank: tools, queries, asks and verified labels; and counts of what was skipped."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from toolbank.bank.files import (
    read_asks,
    read_queries,
    read_records,
    read_tools,
    write_queries,
    write_records,
    write_tools,
)
from toolbank.bank.profile import QueryProfile
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.config.explain import read_checked
from toolbank.system.files import write_json
from toolbank.system.numbers import count

PROFILE = "profile.parquet"
"""The file of profiles in a bank's folder."""

MISSING, FITTED = "missing.parquet", "fitted.parquet"
"""The files of missing-tool queries, and of those among them that a grader found a tool for."""

Labels = Literal["verified", "first"]
"""Which labels of a query count if it has verified ones."""

Grade = Literal["needed", "alternative", "aside"]
NEEDED, ALTERNATIVE = 2, 1
"""Grades of a tool in qrels and for nDCG; other tools have none."""

GraderKind = Literal["", "check", "model", "person"]
"""Who gave a label; of two, the later kind in this list counts. "" in files of earlier versions."""


class Label(Record):
    """The grade of a tool for a query, and why.

    A tool is `needed`, or an `alternative` that can replace the needed tool that it `stands_for`.
    Without a tool, the query is `aside`: excluded from training. Tools without a row are not
    needed. `kind` and `source` name the grader: a person's file, a model, or a check.
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
        """Make a label of a tool that can replace a needed one."""
        content = {"query": query, "tool": tool, "for": stands_for, "reason": reason}
        return cls.model_validate({**content, "grade": "alternative"})


@dataclass
class QueryLabels:
    """The labels of one query: its needed tools, and the alternatives to each.

    `aside` is the reason why it is excluded, or "".
    """

    needed: list[str] = field(default_factory=list)
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    aside: str = ""

    @property
    def all_alternatives(self) -> tuple[str, ...]:
        """The alternatives to any needed tool, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(self.alternatives.values())))

    @property
    def grades(self) -> dict[str, int]:
        """The grade of each tool that fits; a needed tool stays needed if it is an alternative, too."""
        return {
            **dict.fromkeys(self.needed, NEEDED),
            **{
                name: ALTERNATIVE
                for name in self.all_alternatives
                if name not in self.needed
            },
        }


def group_labels(labels: Iterable[Label]) -> Mapping[str, QueryLabels]:
    """Group labels by the id of their query."""
    of: defaultdict[str, QueryLabels] = defaultdict(QueryLabels)
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
    """A query with merged labels: `tools` are the merged ones, `tools_first` the original ones.

    The classes are those of its `QueryProfile`; None without one.
    """

    tools_first: tuple[str, ...] = ()
    fits: str | None = None
    wording: str | None = None
    difficulty: str | None = None


def apply_labels(
    query: Query,
    verified: QueryLabels | None,
    profiles: Mapping[str, QueryProfile] | None = None,
) -> LabelledQuery:
    """Replace the tools of a query by those that its labels need, and add its classes, if any."""
    tools = (tuple(verified.needed) if verified else ()) or query.tools
    row = {**dict(query), "tools": tools, "tools_first": query.tools}
    profile = (profiles or {}).get(query.id)
    if profile and profile.key == label_key(query, verified):
        row |= profile.classes()
    return LabelledQuery(**row)


def label_key(query: Query, verified: QueryLabels | None) -> str:
    """Hash a request and its labels, by which a profile is known to be out of date."""
    needed, others = (verified.needed, verified.alternatives) if verified else ([], {})
    content = json.dumps([query.query, query.tools, needed, others], sort_keys=True)
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]


def read_profiles(folder: Path) -> dict[str, QueryProfile]:
    """Read the profiles in a bank's folder by request; banks of earlier versions have none.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / PROFILE
    rows = read_records(path, QueryProfile) if path.is_file() else ()
    return {row.id: row for row in rows}


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a labels.parquet, atomically; same labels, same bytes."""
    write_records(path, Label, labels)


def read_labels(path: Path) -> tuple[Label, ...]:
    """Read a labels.parquet; without the file there are none.

    Raises:
        InputError: the file is damaged, or has another layout.
    """
    return tuple(read_records(path, Label)) if path.exists() else ()


def read_missing(
    folder: Path, *, settled: bool = True
) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """Read the missing-tool queries in a bank's folder, and those that a grader found a tool for.

    Unless `settled`, the latter are among the former. A bank may have neither.

    Raises:
        InputError: a file is damaged.
    """
    missing, fitted = (
        read_queries(path) if path.is_file() and is_read else ()
        for path, is_read in ((folder / MISSING, True), (folder / FITTED, settled))
    )
    found = {query.id for query in fitted}
    return tuple(query for query in missing if query.id not in found), fitted


@dataclass(frozen=True)
class Bank:
    """Tools, queries, and `info`, the content of bank.json.

    `asks` are queries for one tool each. They are in no split: all are training data. `labels` are
    the result of a verification; `queries` are not changed by it. `profiles` are those of queries
    by id, some of which may be out of date; `classes` has the others. `missing` are the missing-tool
    queries: no tool of the bank fits them, and they have no `tools`. They have splits, and nothing
    is trained on them but calibrations.
    """

    tools: tuple[Tool, ...]
    queries: tuple[Query, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()
    labels: tuple[Label, ...] = ()
    profiles: Mapping[str, QueryProfile] = field(default_factory=dict)
    missing: tuple[Query, ...] = ()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools, in order."""
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position in `tools` of every name and alias; names win over aliases."""
        positions: dict[str, int] = {}
        for position, tool in enumerate(self.tools):
            for alias in tool.aliases:
                positions.setdefault(alias, position)
        positions.update({tool.name: i for i, tool in enumerate(self.tools)})
        return positions

    def split(self, name: Split) -> tuple[Query, ...]:
        """The queries of one split."""
        return tuple(query for query in self.queries if query.split == name)

    @cached_property
    def train_queries(self) -> tuple[Query, ...]:
        """The training data: the queries of split "train", and the asks as `asked`."""
        return self.split("train") + self.asked

    @cached_property
    def asked(self) -> tuple[Query, ...]:
        """The asks as train queries, each text once, with its tools in the bank's order.

        An ask of several siblings has all of them as tools: each serves it alone.
        """
        by_text: dict[str, list[Ask]] = {}
        for ask in self.asks:
            by_text.setdefault(ask.ask, []).append(ask)
        last = len(self.tools)
        return tuple(
            Query(
                id=f"ask-{number}",
                query=text,
                tools=tuple(
                    sorted(
                        dict.fromkeys(ask.tool for ask in asks),
                        key=lambda name: self.index.get(name, last),
                    )
                ),
                split="train",
                provenance=asks[0].provenance,
            )
            for number, (text, asks) in enumerate(by_text.items())
        )

    @cached_property
    def verified(self) -> Mapping[str, QueryLabels]:
        """The labels of each labelled query, by its id."""
        return group_labels(self.labels)

    @cached_property
    def classes(self) -> Mapping[str, QueryProfile]:
        """The profiles by these labels, by the id of their query."""
        return {
            query.id: found
            for query in self.queries
            if (found := self.profiles.get(query.id))
            and found.key == label_key(query, self.verified.get(query.id))
        }

    @property
    def sure_missing(self) -> frozenset[str]:
        """The ids of missing-tool queries that are graded, or that a dataset brings.

        Of the others, only their writer says that no tool fits.
        """
        return frozenset(
            query.id
            for query in self.missing
            if query.id in self.verified or query.provenance is None
        )

    def alternatives(self, query: Query) -> tuple[str, ...]:
        """List the alternatives to the tools that a query needs."""
        verified = self.verified.get(query.id)
        return verified.all_alternatives if verified else ()

    def without_missing_tools(self) -> Bank:
        """Remove queries and asks for tools that the bank lacks, such as after a refresh."""
        known = self.index
        return replace(
            self,
            queries=tuple(
                q for q in self.queries if all(name in known for name in q.tools)
            ),
            asks=tuple(ask for ask in self.asks if ask.tool in known),
        )

    def with_labels_applied(self) -> Bank:
        """Apply the labels to the queries of train and validation.

        An excluded query is in no split. Test queries and those without labels do not change.
        """
        return replace(self, queries=tuple(map(self._verify, self.queries)))

    def _verify(self, query: Query) -> Query:
        verified = self.verified.get(query.id)
        if verified is None or query.split == "test":
            return query
        if verified.aside:
            return query.model_copy(update={"split": None})
        return query.model_copy(update={"tools": tuple(verified.needed)})

    def without_train_queries(self, rows: Iterable[int]) -> Bank:
        """Remove some of `train_queries`, given by their positions."""
        n_train = len(self.split("train"))
        out = [(row, self.train_queries[row]) for row in rows]
        queries = {id(query) for row, query in out if row < n_train}
        asked = {query.query for row, query in out if row >= n_train}
        return replace(
            self,
            queries=tuple(q for q in self.queries if id(q) not in queries),
            asks=tuple(ask for ask in self.asks if ask.ask not in asked),
        )

    def save(self, folder: Path) -> None:
        """Write tools, queries, asks, labels and missing-tool queries (.parquet), and bank.json.

        Each is written atomically. Without asks, labels or missing-tool queries, their file is
        removed.
        """
        write_tools(folder / "tools.parquet", self.tools)
        write_queries(folder / "queries.parquet", self.queries)
        optional = (
            ("asks.parquet", Ask, self.asks),
            ("labels.parquet", Label, self.labels),
            (MISSING, Query, self.missing),
            (FITTED, Query, ()),
        )
        for name, kind, records in optional:
            path = folder / name
            if records:
                write_records(path, kind, records)
            else:
                path.unlink(missing_ok=True)
        write_json(folder / "bank.json", self.info)

    @classmethod
    def load(cls, folder: Path, *, settled: bool = True) -> Bank:
        """Read a bank folder.

        If `settled`, missing-tool queries for which a grader found a tool are among the queries.

        Raises:
            InputError: a file is missing, damaged, or has another layout.
        """
        tools = read_tools(folder / "tools.parquet")
        queries = read_queries(folder / "queries.parquet")
        asks = read_asks(folder / "asks.parquet")
        labels = read_labels(folder / "labels.parquet")
        info = read_checked(folder / "bank.json", dict[str, Any])
        missing, fitted = read_missing(folder, settled=settled)
        queries = (*queries, *fitted)
        return cls(tools, queries, info, asks, labels, read_profiles(folder), missing)


_EXAMPLES = 5
_SHOWN = 3


@dataclass
class SkipCounter:
    """Counts what was skipped by reason, with a few examples each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: defaultdict[str, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, reason: str, example: str) -> None:
        """Count one more; the first few are examples."""
        self.counts[reason] += 1
        if len(self.examples[reason]) < _EXAMPLES:
            self.examples[reason].append(example)

    def describe(self) -> dict[str, Any]:
        """Return counts and examples by reason, as JSON."""
        return {
            reason: {"count": number, "examples": self.examples[reason]}
            for reason, number in sorted(self.counts.items())
        }

    def as_info(self) -> dict[str, Any]:
        """Return the `left_out` and `left_out_examples` of a source's `info`."""
        return {
            "left_out": dict(sorted(self.counts.items())),
            "left_out_examples": {
                reason: sorted(self.examples[reason]) for reason in sorted(self.counts)
            },
        }

    def lines(self, label: str) -> Iterator[str]:
        """Describe the skipped tools, a line per reason, after a label."""
        for reason, number in sorted(self.counts.items()):
            names = ", ".join(self.examples[reason][:_SHOWN])
            yield f"{label}: skipped because {reason}: {count(number, 'tool')}, such as {names}"
