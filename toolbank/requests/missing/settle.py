"""Split missing-tool queries, and turn those that a tool fits into queries of that tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from toolbank.bank.bank import QueryLabels
from toolbank.bank.records import Query, Split, join_pairs
from toolbank.bank.split import SplitConfig, Units, assign_apart, thin_train
from toolbank.requests.write.near_duplicates import ALIKE, NearDuplicates


def split_missing(
    queries: Sequence[Query], config: SplitConfig, seed: int
) -> list[Query]:
    """Split missing-tool queries by the shares of `config`; their own test and validation stay.

    Train is thinned as that of other queries. Near-duplicates are in the same split, and in none if
    they have two of their own.
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
    split = [
        query.model_copy(update={"split": split})
        for query, split in zip(queries, splits, strict=True)
    ]
    return thin_train(split, config, seed)[0]


@dataclass(frozen=True)
class SettledMissing:
    """How many missing-tool queries nothing fits by their grades, and how many are not graded.

    `fitted` are the others, with the tools that a grader needs.
    """

    fitted: tuple[Query, ...]
    nothing_fits: int
    not_graded: int

    def describe(self) -> dict[str, int]:
        """Return the part of verify.json."""
        return {
            "queries": len(self.fitted) + self.nothing_fits + self.not_graded,
            "nothing_fits": self.nothing_fits,
            "a_tool_fits": len(self.fitted),
            "not_graded": self.not_graded,
            "in_no_split": sum(query.split is None for query in self.fitted),
        }

    def __str__(self) -> str:
        """Say in a line what became of the queries."""
        n = self.describe()
        return (
            f"of {n['queries']:,} queries that no tool should fit, nothing fits "
            f"{n['nothing_fits']:,}, {n['not_graded']:,} are not graded, and {n['a_tool_fits']:,} are "
            f"now queries of the tool that fits ({n['in_no_split']:,} of them in no split, as the tool "
            "is withheld or of another split)"
        )


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
    splits_of: defaultdict[str, set[Split]] = defaultdict(set)
    for query in queries:
        if units and query.split:
            for unit in units(query):
                splits_of[unit].add(query.split)
    fitted: list[Query] = []
    for query in missing:
        graded = labels.get(query.id)
        if graded is None or not graded.needed:
            continue
        split, tools = query.split, tuple(graded.needed)
        found = query.model_copy(update={"tools": tools})
        own = frozenset(units(found) if units else ())
        is_apart = all(splits_of[unit] <= {split} for unit in own)
        if not is_apart or (split != "test" and not {*withheld}.isdisjoint(tools)):
            split = None
        if split:
            for unit in own:
                splits_of[unit].add(split)
        fitted.append(found.model_copy(update={"split": split}))
    n_graded = sum(query.id in labels for query in missing)
    n_fit_none = n_graded - len(fitted)
    return SettledMissing(tuple(fitted), n_fit_none, len(missing) - n_graded)
