"""The sets of labelled queries that a retriever is evaluated on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank, Query


@dataclass(frozen=True)
class EvaluationSet:
    """Queries and the indices of the tools of `tools` that each needs.

    A name that the bank lacks counts as a tool that nothing can find: it has an index past the
    last tool, so it stays in the denominator of recall. `unknown` says how often each such
    name is asked for. `refusals` counts lines of a file that need no tool and are left out.
    """

    name: str
    tools: tuple[str, ...]
    queries: tuple[str, ...]
    gold: tuple[frozenset[int], ...]
    unknown: dict[str, int] = field(default_factory=dict)
    refusals: int = 0

    def padded_gold(self) -> NDArray[np.int64]:
        """Indices [n, most] of each query's tools, padded with -1."""
        most = max(map(len, self.gold), default=0)
        padded = np.full((len(self.gold), most), -1, dtype=np.int64)
        for row, indices in zip(padded, self.gold, strict=True):
            row[: len(indices)] = sorted(indices)
        return padded


def make_set(
    name: str, bank: Bank, queries: Sequence[Query], refusals: int = 0
) -> EvaluationSet:
    """Resolve the names that label queries; an alias counts for its tool."""
    unknown: Counter[str] = Counter()
    strangers: dict[str, int] = {}
    gold = []
    for query in queries:
        missing = {tool for tool in query.tools if tool not in bank.index}
        unknown.update(missing)
        for tool in sorted(missing):
            strangers.setdefault(tool, len(bank.tools) + len(strangers))
        gold.append(
            frozenset(
                strangers[tool] if tool in missing else bank.index[tool]
                for tool in query.tools
            )
        )
    return EvaluationSet(
        name=name,
        tools=tuple(tool.name for tool in bank.tools),
        queries=tuple(query.query for query in queries),
        gold=tuple(gold),
        unknown=dict(sorted(unknown.items())),
        refusals=refusals,
    )


def describe_labels(evaluated: EvaluationSet) -> dict[str, Any]:
    """What of a set's labels could not count, as JSON: set, n, unknown, refusals."""
    return {
        "set": evaluated.name,
        "n": len(evaluated.queries),
        "unknown": evaluated.unknown,
        "refusals": evaluated.refusals,
    }


def split_sets(bank: Bank) -> list[EvaluationSet]:
    """The test split, and apart: tool sets that a train query has too, and the others."""
    test = bank.split("test")
    seen_sets = {_tool_set(bank, query) for query in bank.split("train")}
    seen = [query for query in test if _tool_set(bank, query) in seen_sets]
    unseen = [query for query in test if _tool_set(bank, query) not in seen_sets]
    return [
        make_set("test", bank, test),
        make_set("test-seen-sets", bank, seen),
        make_set("test-unseen-sets", bank, unseen),
    ]


def _tool_set(bank: Bank, query: Query) -> frozenset[int | str]:
    return frozenset(bank.index.get(tool, tool) for tool in query.tools)
