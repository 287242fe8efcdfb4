"""The sets of labelled queries that a retriever is evaluated on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import ALTERNATIVE, NEEDED, Bank, QueryLabels
from toolbank.bank.records import Query, find_first_twins
from toolbank.evaluation import CLASS_PARTS, SEEN_PARTS, VERIFIED
from toolbank.evaluation.figures import SetLabels

_Tools = frozenset[int | str]


@dataclass(frozen=True)
class EvaluationSet:
    """Queries and the indices of the tools of `tools` that each needs.

    A name that the bank lacks counts as a tool that nothing can find: it has an index past the
    last tool, so it stays in the denominator of recall. `index` has the indices of these names, and
    of the names and aliases of all tools. `labels` are the names of each query's tools, as the bank
    has them. `parts` are positions of queries, evaluated apart as well. `unknown` counts the uses
    of each name that the bank lacks. `refusals` counts skipped lines of logs. `missing` are the
    requests that no tool fits; `not_graded` counts those of them that were not graded.
    `first_twins` is the result of `find_first_twins`. `alternatives` maps
    the tools of each query to their alternatives; empty if none is known.
    """

    name: str
    tools: tuple[str, ...]
    ids: tuple[str, ...]
    queries: tuple[str, ...]
    gold: tuple[frozenset[int], ...]
    labels: tuple[tuple[str, ...], ...]
    parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    index: Mapping[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    refusals: int = 0
    missing: tuple[str, ...] = ()
    not_graded: int = 0
    first_twins: tuple[int, ...] = ()
    alternatives: tuple[Mapping[int, frozenset[int]], ...] = ()

    @property
    def has_twins(self) -> bool:
        """Whether the bank has twins, tools that no request can tell apart."""
        return any(first != own for own, first in enumerate(self.first_twins))

    def padded_gold(self) -> NDArray[np.int64]:
        """Return indices [n, most] of each query's tools, padded with -1."""
        most = max(map(len, self.gold), default=0)
        padded = np.full((len(self.gold), most), -1, dtype=np.int64)
        for row, indices in zip(padded, self.gold, strict=True):
            row[: len(indices)] = sorted(indices)
        return padded

    def grades(self) -> list[dict[int, int]]:
        """Return the grades of each query's tools, as its qrels have them."""
        return [
            dict.fromkeys(frozenset[int]().union(*places.values()), ALTERNATIVE)
            | dict.fromkeys(places, NEEDED)
            for places in self.alternatives
        ]

    def selections(self) -> dict[str, NDArray[np.int64]]:
        """Return the positions of the queries of the set and of each non-empty part."""
        whole = {self.name: np.arange(len(self.queries))}
        return whole | {name: rows for name, rows in self.parts.items() if len(rows)}


def make_set(
    name: str,
    bank: Bank,
    queries: Sequence[Query],
    refusals: int = 0,
    parts: Mapping[str, Sequence[int]] | None = None,
    missing: Sequence[Query] = (),
) -> EvaluationSet:
    """Make a set of labelled queries; an alias counts for its tool."""
    unknown = Counter(
        name
        for query in queries
        for name in sorted({*query.tools})
        if name not in bank.index
    )
    index = bank.index | {
        name: place for place, name in enumerate(sorted(unknown), len(bank.tools))
    }
    gold, labels = [], []
    for query in queries:
        gold.append(frozenset(index[name] for name in query.tools))
        named = {
            name if name in unknown else bank.tools[index[name]].name: None
            for name in query.tools
        }
        labels.append(tuple(named))
    return EvaluationSet(
        name=name,
        tools=tuple(tool.name for tool in bank.tools),
        ids=tuple(query.id for query in queries),
        queries=tuple(query.query for query in queries),
        gold=tuple(gold),
        labels=tuple(labels),
        parts={
            part: np.array(rows, dtype=np.int64) for part, rows in (parts or {}).items()
        },
        index=index,
        unknown=dict(sorted(unknown.items())),
        refusals=refusals,
        missing=tuple(query.query for query in missing),
        first_twins=find_first_twins(bank.tools),
    )


def describe_labels(evaluated: EvaluationSet) -> SetLabels:
    """Describe the labels of a set that could not count."""
    n = len(evaluated.queries)
    return SetLabels(evaluated.name, n, evaluated.unknown, evaluated.refusals)


def held_out_set(bank: Bank) -> EvaluationSet:
    """Make the set of the test split, with parts by what train queries have shown.

    - test-seen-sets, test-unseen-sets: whether a train query needs the same set of tools
    - test-seen-tools, test-unseen-tools: whether train queries use each of the tools
    """
    train = [_tool_set(bank, query) for query in bank.split("train")]
    # Siblings share an ask, and each of them serves it alone.
    train += [frozenset({bank.index.get(ask.tool, ask.tool)}) for ask in bank.asks]
    sets = set(train)
    tools = frozenset[int | str]().union(*train)
    test = bank.split("test")
    if not train:
        return make_set("test", bank, test)
    parts: dict[str, list[int]] = {name: [] for name in SEEN_PARTS}
    for position, query in enumerate(test):
        needed = _tool_set(bank, query)
        for what, is_seen in (("sets", needed in sets), ("tools", needed <= tools)):
            parts[f"test-{'seen' if is_seen else 'unseen'}-{what}"].append(position)
    return make_set("test", bank, test, parts=parts)


def verified_set(bank: Bank) -> EvaluationSet | None:
    """Make the set of the test requests by their verified labels; None without any.

    A needed tool counts as found if an alternative is, which fills no other place; for nDCG, needed
    tools have the grade 2 and alternatives 1, as in published qrels. Requests without
    a verified label keep their first ones; excluded requests are skipped.
    """
    queries, labels = [], []
    for query in bank.split("test"):
        verified = bank.verified.get(query.id, QueryLabels(list(query.tools)))
        if not verified.aside:
            needed = tuple(verified.needed)
            queries.append(query.model_copy(update={"tools": needed}))
            labels.append(verified)
    if not any(query.id in bank.verified for query in bank.split("test")):
        return None
    made = make_set(VERIFIED, bank, queries)
    return replace(
        made,
        alternatives=tuple(
            dict.fromkeys(gold, frozenset[int]())
            | {
                bank.index[tool]: frozenset(bank.index[name] for name in others)
                for tool, others in verified.alternatives.items()
            }
            for gold, verified in zip(made.gold, labels, strict=True)
        ),
    )


def make_test_sets(bank: Bank) -> list[EvaluationSet]:
    """Make the sets of the test split: by first labels and, if there are any, by verified ones.

    The last one also has a part for each class of the requests, as far as they are known.
    """
    by_verified = verified_set(bank)
    sets = [held_out_set(bank), *([by_verified] if by_verified else [])]
    missing = [query for query in bank.missing if query.split == "test"]
    last = replace(
        sets[-1],
        missing=tuple(query.query for query in missing),
        not_graded=len({query.id for query in missing} - bank.sure_missing),
    )
    classes = [
        bank.classes[one].classes() if one in bank.classes else {} for one in last.ids
    ]
    parts = {
        part: np.array(
            [row for row, of in enumerate(classes) if of.get(axis) == name], np.int64
        )
        for axis, names in CLASS_PARTS.items()
        for part, name in names.items()
    }
    return [*sets[:-1], replace(last, parts={**last.parts, **parts})]


def _tool_set(bank: Bank, query: Query) -> _Tools:
    return frozenset(bank.index.get(tool, tool) for tool in query.tools)
