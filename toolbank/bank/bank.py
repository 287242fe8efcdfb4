"""A bank: tools, the queries that use them, and the asks for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from toolbank.bank.files import (
    explain_foreign_file,
    read_asks,
    read_queries,
    read_tools,
    write_asks,
    write_queries,
    write_tools,
)
from toolbank.bank.labels import (
    Label,
    Verified,
    group_labels,
    read_labels,
    write_labels,
)
from toolbank.bank.records import Ask, Query, Split, Tool
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json


@dataclass(frozen=True)
class Bank:
    """Tools, the queries that use them, and `info`, the content of bank.json.

    `asks` are requests for one tool each. They are in no split: all are there to learn from.
    `labels` are what a verification found of the queries' tools; `queries` stay as written.
    """

    tools: tuple[Tool, ...]
    queries: tuple[Query, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()
    labels: tuple[Label, ...] = ()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools' own names, in their order."""
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position in `tools` of every name; a tool's own name goes before another's alias."""
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
        """What methods learn from: the queries of split "train", and the asks as `asked`."""
        return self.split("train") + self.asked

    @cached_property
    def asked(self) -> tuple[Query, ...]:
        """The asks as train queries, each text once; its tools stand in the bank's order.

        An ask that siblings share has all of them as its tools: any of them serves it alone.
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
    def verified(self) -> Mapping[str, Verified]:
        """The labels of each request that has some, by its id."""
        return group_labels(self.labels)

    def alternatives(self, query: Query) -> tuple[str, ...]:
        """The tools that would serve in place of one that a request needs."""
        verified = self.verified.get(query.id)
        return verified.all_alternatives if verified else ()

    def without_gone(self) -> Bank:
        """One without the queries and asks for tools that it lacks, such as after a refresh."""
        known = self.index
        return replace(
            self,
            queries=tuple(
                q for q in self.queries if all(name in known for name in q.tools)
            ),
            asks=tuple(ask for ask in self.asks if ask.tool in known),
        )

    def with_verified(self) -> Bank:
        """One that is learnt from by its labels: train and validation need what these say.

        A request that is set aside is in no split. Test requests, and those without a label, stay
        as they are.
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
        """One without some of `train_queries`, given by their positions among these."""
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
        """Write tools.parquet, queries.parquet, asks.parquet, labels.parquet and bank.json.

        Each is written atomically. Without asks there is no asks.parquet, and so with labels.
        """
        write_tools(folder / "tools.parquet", self.tools)
        write_queries(folder / "queries.parquet", self.queries)
        asks = folder / "asks.parquet"
        if self.asks:
            write_asks(asks, self.asks)
        else:
            asks.unlink(missing_ok=True)
        labels = folder / "labels.parquet"
        if self.labels:
            write_labels(labels, self.labels)
        else:
            labels.unlink(missing_ok=True)
        write_json(folder / "bank.json", self.info)

    @classmethod
    def load(cls, folder: Path) -> Bank:
        """Read a bank folder.

        Raises:
            InputError: a file is missing, damaged, or not of this layout.
        """
        tools = read_tools(folder / "tools.parquet")
        queries = read_queries(folder / "queries.parquet")
        asks = read_asks(folder / "asks.parquet")
        labels = read_labels(folder / "labels.parquet")
        info = read_json(folder / "bank.json")
        if not isinstance(info, dict):
            raise InputError(
                explain_foreign_file(folder / "bank.json", TypeError("no JSON object"))
            )
        return cls(tools, queries, info, asks, labels)
