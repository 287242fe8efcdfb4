"""Split missing-tool queries, and turn those that a tool fits into queries of that tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.bank import QueryLabels
from toolbank.bank.records import Query, Split, join_pairs
from toolbank.bank.split import SplitConfig, Units, assign_apart
from toolbank.requests.write.near_duplicates import ALIKE, NearDuplicates


def split_missing(
    queries: Sequence[Query], config: SplitConfig, seed: int
) -> list[Query]:
    """Split missing-tool queries by the shares of `config`; their own test and validation stay.

    Near-duplicates are in the same split, and in none if they have two of their own.
    """
    given = [query.split for query in queries]
    free = sum(split not in ("validation", "test") for split in given)
    n_test = 0 if "test" in given else round(config.test * free)
    n_validation = 0 if "validation" in given else round(config.validation * free)
    texts = [query.query for query in queries]
    seen, pairs = NearDuplicates(ALIKE, texts.__getitem__), list[tuple[int, int]]()
    for row, text in enumerate(texts):
        pairs += ((row, other) for other, _ in seen.find_all(text))
        seen.add(text)
    units = [frozenset([str(first)]) for first in join_pairs(len(texts), pairs)]
    splits = assign_apart(units, n_test, n_validation, seed, given)
    return [
        query.model_copy(update={"split": split})
        for query, split in zip(queries, splits, strict=True)
    ]


@dataclass(frozen=True)
class SettledMissing:
    """The missing-tool queries by their grades; `fitted` have the tools that a grader needs.

    `reasons` says by id why nothing fits. The others are `not_graded`.
    """

    fitted: tuple[Query, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    not_graded: tuple[str, ...] = ()

    def list_counts(self) -> list[str]:
        """Say in a line what became of the queries."""
        counts = self.describe()
        line = (
            f"queries that no tool should fit: of {counts['queries']:,}, nothing fits "
            f"{counts['nothing_fits']:,}; a tool fits {counts['a_tool_fits']:,}, which are now "
            f"queries of that tool"
        )
        if n := counts["in_no_split"]:
            line += f" ({n:,} in no split, as it is withheld or of another split)"
        return [f"{line}; not graded {counts['not_graded']:,}"]

    def describe(self) -> dict[str, Any]:
        """Return the counts and rows of verify.json."""
        return {
            "queries": len(self.fitted) + len(self.reasons) + len(self.not_graded),
            "nothing_fits": len(self.reasons),
            "a_tool_fits": len(self.fitted),
            "not_graded": len(self.not_graded),
            "in_no_split": sum(query.split is None for query in self.fitted),
            "fitted": {query.id: list(query.tools) for query in self.fitted},
        }


def settle_missing(
    missing: Sequence[Query],
    labels: Mapping[str, QueryLabels],
    queries: Sequence[Query],
    withheld: Collection[str],
    units: Units | None,
) -> SettledMissing:
    """Settle what became of missing-tool queries by their merged labels.

    One that needs tools keeps its split, unless that would show a `withheld` tool in train or
    validation, or a unit of the `queries` in another split; it is then in no split.
    """
    splits_of: dict[str, set[Split]] = {}
    for query in queries:
        if units and query.split:
            for unit in units(query):
                splits_of.setdefault(unit, set()).add(query.split)
    fitted, reasons, not_graded = list[Query](), dict[str, str](), list[str]()
    for query in missing:
        graded = labels.get(query.id)
        if graded is None:
            not_graded.append(query.id)
        elif graded.needed:
            found = query.model_copy(update={"tools": tuple(graded.needed)})
            shown = (
                [splits_of.get(unit, set()) for unit in units(found)] if units else []
            )
            is_apart = all(splits <= {found.split} for splits in shown)
            hides = found.split == "test" or set(withheld).isdisjoint(found.tools)
            split = found.split if is_apart and hides else None
            fitted.append(found.model_copy(update={"split": split}))
        else:
            reasons[query.id] = graded.aside
    return SettledMissing(tuple(fitted), reasons, tuple(not_graded))
