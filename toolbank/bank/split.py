"""Split queries into train, validation and test, so that the splits share no tools if required."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from toolbank.bank.bank import Bank
from toolbank.bank.records import McpCall, Query, Split, Tool
from toolbank.config.base import Config

SplitBy = Literal["random", "set", "tool", "family"]


Units = Callable[[Query], frozenset[str]]


def make_units(by: SplitBy, tools: Sequence[Tool]) -> Units | None:
    """Make a function that returns the units of a query, which splits may not share; or None.

    Units are the set of tools as a whole, each tool, or the family of each tool (`find_family`).
    """
    if by == "random":
        return None
    index = Bank(tuple(tools)).index
    families = {tool.name: find_family(tool) for tool in tools}

    def find_units(query: Query) -> frozenset[str]:
        names = {
            tools[index[name]].name if name in index else name for name in query.tools
        }
        if by == "set":
            return frozenset(["\n".join(sorted(names))])
        if by == "family":
            return frozenset(families.get(name, name) for name in names)
        return frozenset(names)

    return find_units


def find_held_out_tools(
    queries: Sequence[Query], tools: Sequence[Tool], units: Units
) -> set[str]:
    """Find the names of the tools that share a unit with a query of test or validation."""
    held: set[str] = set()
    for query in queries:
        if query.split in ("test", "validation"):
            held |= units(query)
    alone = {tool.name: Query(id="", query="", tools=(tool.name,)) for tool in tools}
    return {name for name, query in alone.items() if not units(query).isdisjoint(held)}


def find_family(tool: Tool) -> str:
    """Find the family of a tool: its first tag, MCP server, module or class; else its name."""
    if tool.tags:
        return tool.tags[0]
    if isinstance(tool.call, McpCall):
        return tool.call.source
    return tool.name.rpartition(".")[0] or tool.name


def assign_apart(
    units: Sequence[frozenset[str]],
    n_test: int,
    n_validation: int,
    seed: int,
    given: Sequence[Split | None] = (),
) -> list[Split | None]:
    """Assign queries to splits so that no unit, such as a tool, is in two splits.

    `units` are those of each query. Test grows by the query that adds the fewest units, and of these
    by the one whose units the fewest other queries have; the seed breaks ties. Then validation grows
    from the queries that share nothing with test. A unit of more than half of all queries, and of
    more than requested, such as the module of most functions, is never held out: too little would
    be left for training. A query with units of two splits is in none. Queries `given` as test or
    validation stay, and none are added if the requested number is 0.
    """
    splits: list[Split | None] = [None] * len(units)
    left = set(range(len(units)))
    held_out: tuple[tuple[Split, int], ...] = (
        ("test", n_test),
        ("validation", n_validation),
    )
    for row, split in enumerate(given):
        if split in ("test", "validation"):
            splits[row] = split
            left.discard(row)
    for name, wanted in held_out:
        others = {
            unit
            for row, split in enumerate(given)
            if split in ("test", "validation") and split != name
            for unit in units[row]
        }
        left -= {row for row in left if not units[row].isdisjoint(others)}
        taken = _grow(units, left, wanted, f"{seed}:{name}")
        for row, split in enumerate(given):
            if split == name:
                taken |= units[row]
        for row in sorted(left):
            if wanted and units[row] <= taken:
                splits[row] = name
            if not units[row].isdisjoint(taken):
                left.discard(row)
    for row in left:
        splits[row] = "train"
    return splits


def _grow(
    units: Sequence[frozenset[str]], rows: set[int], wanted: int, seed: str
) -> set[str]:
    """Choose units so that at least `wanted` rows have only these units, if possible."""
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row in sorted(rows):
        for unit in sorted(units[row]):
            rows_of[unit].append(row)
    most = max(wanted, len(rows) / 2)
    common = {unit for unit, having in rows_of.items() if len(having) > most}
    order = [row for row in sorted(rows) if common.isdisjoint(units[row])]
    Random(seed).shuffle(order)
    place = {row: number for number, row in enumerate(order)}
    missing = {row: len(units[row]) for row in rows}
    touching = {row: sum(len(rows_of[unit]) for unit in units[row]) for row in rows}
    heap = [(missing[row], touching[row], place[row], row) for row in order]
    heapify(heap)
    taken: set[str] = set()
    inside = sum(not missing[row] for row in rows)
    while heap and inside < wanted:
        n_missing, _, _, row = heappop(heap)
        if n_missing != missing[row] or not n_missing:
            continue
        for unit in units[row] - taken:
            taken.add(unit)
            for other in rows_of[unit]:
                missing[other] -= 1
                touching[other] -= len(rows_of[unit])
                inside += not missing[other]
                if missing[other] and other in place:
                    entry = missing[other], touching[other], place[other], other
                    heappush(heap, entry)
    return taken


class SplitConfig(Config):
    """Shares of the queries that are held out."""

    by: SplitBy = Field(
        default="random",
        description=(
            "what may not occur in two splits; random: no condition; set: the same set of "
            "tools; tool: the same tool; family: tools of the same tag, module or server. "
            "Queries that would belong to two splits are dropped and counted"
        ),
    )
    validation: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the queries in the validation split",
    )
    test: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="share of the queries in the test split; up to 1 if the recipe has `dataset`",
    )
    withhold_tools: float = Field(
        default=0,
        ge=0,
        lt=1,
        description="share of tools withheld from train and validation",
    )
    train_share: float = Field(
        default=1,
        gt=0,
        le=1,
        description="share of the train queries to train on, as for a learning curve; a larger "
        "share contains a smaller one",
    )

    def shape(self) -> dict[str, Any]:
        """Return the settings that shape the splits; `train_share` only if it leaves some out."""
        # Results of versions without `train_share` stay current.
        skipped = {"train_share"} if self.train_share == 1 else set()
        return self.model_dump(mode="json", exclude=skipped)

    @model_validator(mode="after")
    def _holds_back_once(self) -> Self:
        if self.withhold_tools and self.by in ("tool", "family"):
            raise ValueError(
                f"withhold_tools and `by: {self.by}` both withhold tools; remove one of them"
            )
        return self

    @model_validator(mode="after")
    def _is_at_most_all(self) -> Self:
        if self.validation + self.test > 1:
            raise ValueError(
                f"validation ({self.validation}) and test ({self.test}) are more than 1 in sum"
            )
        return self


def split_queries(
    queries: Collection[Query],
    config: SplitConfig,
    seed: int,
    withheld: frozenset[str] = frozenset(),
    gone: frozenset[str] = frozenset(),
    units: Units | None = None,
) -> Iterator[Query]:
    """Iterate over queries with their split set.

    Queries of train and validation with a tool of `withheld`, and all queries with a tool of `gone`,
    are in no split. With `units`, splits share no unit, and queries with units of two are in none.
    """
    splits: Sequence[Split | None] = assign_splits(len(queries), config, seed)
    if units:
        n_test, n_validation = (splits.count(name) for name in ("test", "validation"))
        shown = [units(query) for query in queries]
        splits = assign_apart(shown, n_test, n_validation, seed)
    for query, split in zip(queries, splits, strict=True):
        yield _withhold(
            query, split if gone.isdisjoint(query.tools) else None, withheld
        )


STRATA = "split and number of tools (1, 2, 3, 4 or more)"
_MANY = 4


def find_stratum(query: Query) -> tuple[str, int]:
    """Find the stratum of a query for samples: its split and its number of tools, at most 4."""
    return query.split or "", min(len(query.tools), _MANY)


def sample_queries(queries: Sequence[Query], n: int, seed: int) -> list[Query]:
    """Draw n queries at random in proportion to the strata, in their order; all if there are fewer.

    A larger sample of the same queries contains the smaller one.
    """
    strata: defaultdict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
    for query in queries:
        lot = Random(f"{seed}:sample:{query.id}").random()
        strata[find_stratum(query)].append((lot, query.id))
    # The k-th of m has the place (k - offset) / m, so that each stratum comes in evenly.
    places = [
        ((k + offset) / len(drawn), lot, name)
        for stratum, drawn in strata.items()
        for offset in [Random(f"{seed}:sample:{stratum}").random()]
        for k, (lot, name) in enumerate(sorted(drawn))
    ]
    chosen = {name for _, _, name in sorted(places)[:n]}
    return [query for query in queries if query.id in chosen]


def thin_train(
    queries: Sequence[Query], config: SplitConfig, seed: int
) -> tuple[list[Query], int]:
    """Keep `train_share` of the train queries; returns all queries, and how many left train.

    Those that leave are in no split. The kept ones have the strata of `sample_queries`.
    """
    train = [query for query in queries if query.split == "train"]
    size = max(1, round(config.train_share * len(train)))
    if size >= len(train):
        return list(queries), 0
    kept = {query.id for query in sample_queries(train, size, seed)}
    thinned = [
        query.model_copy(update={"split": None})
        if query.split == "train" and query.id not in kept
        else query
        for query in queries
    ]
    return thinned, len(train) - size


def split_dataset(
    queries: Sequence[Query],
    config: SplitConfig,
    seed: int,
    withheld: frozenset[str] = frozenset(),
    units: Units | None = None,
) -> list[Query]:
    """Split the queries of a dataset; its own test and validation parts stay.

    A missing part is taken from all other queries. `withheld` and `units` are as in
    `split_queries`.
    """
    given = [query.split for query in queries]
    free = [i for i, s in enumerate(given) if s not in ("validation", "test")]
    n_test = 0 if "test" in given else round(config.test * len(free))
    n_validation = 0 if "validation" in given else round(config.validation * len(free))
    carved = dict(zip(free, _carve(len(free), n_test, n_validation, seed), strict=True))
    splits = [carved.get(i, query.split) for i, query in enumerate(queries)]
    if units:
        shown = [units(query) for query in queries]
        splits = assign_apart(shown, n_test, n_validation, seed, given)
    return [
        _withhold(query, split, withheld)
        for query, split in zip(queries, splits, strict=True)
    ]


def assign_splits(count: int, config: SplitConfig, seed: int) -> list[Split]:
    """Assign positions to splits; shares are rounded.

    The default is 8:1:1, as published (ToolBank, arXiv 2409.02141).
    """
    n_test, n_validation = round(config.test * count), round(config.validation * count)
    return _carve(count, n_test, n_validation, seed)


def _carve(count: int, n_test: int, n_validation: int, seed: int) -> list[Split]:
    order = list(range(count))
    Random(f"{seed}:split").shuffle(order)
    splits: list[Split] = ["train"] * count
    for position in order[:n_test]:
        splits[position] = "test"
    for position in order[n_test : n_test + n_validation]:
        splits[position] = "validation"
    return splits


def _withhold(query: Query, split: Split | None, withheld: frozenset[str]) -> Query:
    drops = split != "test" and not withheld.isdisjoint(query.tools)
    return query.model_copy(update={"split": None if drops else split})


def format_splits(counts: Mapping[Split | None, int]) -> str:
    """Format counts by split, such as "80 train, 10 validation, 10 test, 3 in no split"."""
    parts = [f"{counts.get(name, 0):,} {name}" for name in get_args(Split)]
    unused = counts.get(None, 0)
    return ", ".join([*parts, *([f"{unused:,} in no split"] if unused else [])])


@dataclass(frozen=True)
class CatalogueVersion:
    """The tools of an earlier version, from which the attempts before `until` are sampled."""

    tools: tuple[Tool, ...]
    until: int


@dataclass(frozen=True)
class Catalogue:
    """The tools of the newest version, and the versions before it in order.

    An attempt keeps the version with which it began, so its prompt does not change.
    """

    tools: tuple[Tool, ...]
    earlier: tuple[CatalogueVersion, ...] = ()

    @property
    def begins(self) -> int:
        """The first attempt that samples from the newest version."""
        return self.earlier[-1].until if self.earlier else 0

    def followed_by(self, tools: tuple[Tool, ...], begun: int) -> Catalogue:
        """Add a version, from which the attempts from number `begun` on are sampled."""
        until = max(begun, self.begins)
        return Catalogue(tools, (*self.earlier, CatalogueVersion(self.tools, until)))

    def find_gone(self) -> frozenset[str]:
        """Find the names of earlier tools that no tool or alias has any more."""
        known = Bank(self.tools).index
        names = (tool.name for version in self.earlier for tool in version.tools)
        return frozenset(name for name in names if name not in known)

    def draw_withheld(self, config: SplitConfig, seed: int) -> frozenset[str]:
        """Draw the names of the tools that are withheld from training.

        Tools of earlier versions stay withheld or not.
        """
        withheld: set[str] = set()
        known: set[str] = set()
        versions = (*(version.tools for version in self.earlier), self.tools)
        for number, tools in enumerate(versions):
            new = [tool.name for tool in tools if tool.name not in known]
            random = Random(f"{seed}:withhold{f':{number}' if number else ''}")
            withheld.update(random.sample(new, round(config.withhold_tools * len(new))))
            known.update(new)
        return frozenset(withheld.intersection(tool.name for tool in self.tools))


def find_version(attempt: int, earlier: Sequence[CatalogueVersion]) -> int:
    """Find the version of an attempt: 0 is the first, `len(earlier)` the newest."""
    return bisect_right([version.until for version in earlier], attempt)
