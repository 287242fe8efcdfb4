"""A bank: tools, and the queries that use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from toolbank.bank.files import (
    explain_foreign_file,
    read_queries,
    read_tools,
    write_queries,
    write_tools,
)
from toolbank.bank.records import Query, Split, Tool
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json


@dataclass(frozen=True)
class Bank:
    """Tools, the queries that use them, and `info`, the content of bank.json."""

    tools: tuple[Tool, ...]
    queries: tuple[Query, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)

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

    def save(self, folder: Path) -> None:
        """Write tools.parquet, queries.parquet and bank.json, each atomically."""
        write_tools(folder / "tools.parquet", self.tools)
        write_queries(folder / "queries.parquet", self.queries)
        write_json(folder / "bank.json", self.info)

    @classmethod
    def load(cls, folder: Path) -> Bank:
        """Read a bank folder.

        Raises:
            InputError: a file is missing, damaged, or not of this layout.
        """
        tools = read_tools(folder / "tools.parquet")
        queries = read_queries(folder / "queries.parquet")
        info = read_json(folder / "bank.json")
        if not isinstance(info, dict):
            raise InputError(
                explain_foreign_file(folder / "bank.json", TypeError("no JSON object"))
            )
        return cls(tools, queries, info)
