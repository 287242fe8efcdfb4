"""Split queries into train, validation and test so that the splits share nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from random import Random
from typing import Literal, Self

from pydantic import Field, model_validator

from toolbank.bank.bank import Bank
from toolbank.bank.records import McpCall, Query, Split, Tool
from toolbank.config.base import Config

SplitBy = Literal["random", "set", "tool", "family"]


Units = Callable[[Query], frozenset[str]]


def make_units(by: SplitBy, tools: Sequence[Tool]) -> Units | None:
    """What of a request no two splits may share; None where they may share all.

    Its set of tools as one; each tool; or the family of each tool: its first tag, or the module, class
    or server that its name begins with, or itself where there is neither.
    """
    if by == "random":
        return None
    index = Bank(tuple(tools)).index

    def own_names(query: Query) -> list[str]:
        places = (index.get(name) for name in query.tools)
        return [
            name if place is None else tools[place].name
            for name, place in zip(query.tools, places, strict=True)
        ]

    def as_set(query: Query) -> frozenset[str]:
        return frozenset(["\n".join(sorted(set(own_names(query))))])

    def as_families(query: Query) -> frozenset[str]:
        return frozenset(families.get(name, name) for name in own_names(query))

    families = {tool.name: find_family(tool) for tool in tools}
    kinds: dict[SplitBy, Units] = {
        "set": as_set,
        "tool": lambda query: frozenset(own_names(query)),
        "family": as_families,
    }
    return kinds[by]


def find_held_out(
    queries: Sequence[Query], tools: Sequence[Tool], units: Units
) -> set[str]:
    """The names of the tools that have a unit in common with a request that is held out."""
    held: set[str] = set()
    for query in queries:
        if query.split in ("test", "validation"):
            held |= units(query)
    alone = {tool.name: Query(id="", query="", tools=(tool.name,)) for tool in tools}
    return {name for name, query in alone.items() if not units(query).isdisjoint(held)}


def find_family(tool: Tool) -> str:
    """The first tag, or the MCP server, or the module or class that the name begins with.

    The name where there is none.
    """
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
    """The split of each request, such that no unit, as a tool, is in requests of two splits.

    `units` are those of each request. Test is grown by what it takes least to take in: a request
    that adds fewest units, of these the one whose units fewest other requests have; where they
    are equal, the seed decides. Then validation is, of the requests that share nothing with test. A
    unit that more requests have than are asked for, and more than half of all, is not taken in, such
    as the module of most functions: it would leave too little to train on. A request that has units
    of two splits is in none. Requests that are `given` as test or validation stay so, and nothing is
    taken in beside them where the number is 0.
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
    """Units that so many of the rows have none beside, or more where one unit brings several.

    Fewer where there are no more rows without a unit that most have.
    """
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
    """Shares of the queries held back from training."""

    by: SplitBy = Field(
        default="random",
        description="what no two splits share: a set of tools, a tool, or a family (tag, module or "
        "server) of tools; queries that would straddle two are left out, and counted",
    )
    validation: float = Field(
        default=0.1, ge=0, lt=1, description="share for choosing the best weights"
    )
    test: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="share for the figures; of a dataset, it may be all",
    )
    withhold_tools: float = Field(
        default=0,
        ge=0,
        lt=1,
        description="share of the tools that no query of train or validation may use",
    )

    @model_validator(mode="after")
    def _holds_back_once(self) -> Self:
        if self.withhold_tools and self.by in ("tool", "family"):
            raise ValueError(
                f"withhold_tools and `by: {self.by}` both hold tools back; leave one of the two out"
            )
        return self

    @model_validator(mode="after")
    def _is_at_most_all(self) -> Self:
        if self.validation + self.test > 1:
            raise ValueError(
                f"validation ({self.validation}) and test ({self.test}) are more than all"
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
    """Give every query its split, as it is asked for; order and content stay.

    Those of train and validation that use a tool of `withheld` get none, and neither do those of
    any split that use one that is `gone`. With `units`, no two splits share one, and queries that
    have units of two get none.
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


def split_dataset(
    queries: Sequence[Query],
    config: SplitConfig,
    seed: int,
    withheld: frozenset[str] = frozenset(),
    units: Units | None = None,
) -> list[Query]:
    """Give a dataset's queries their splits; test and validation that it has itself stay.

    Where it has no test or no validation part, this is carved out of all others. Withheld
    tools and units are as in `split_queries`.
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


def draw_withheld(
    tools: Sequence[str],
    config: SplitConfig,
    seed: int,
    earlier: Sequence[Sequence[str]] = (),
) -> frozenset[str]:
    """The names of the tools whose use is left out of training.

    Those of `earlier` versions of the tools stay what they are, withheld or not.
    """
    withheld: set[str] = set()
    known: set[str] = set()
    for number, names in enumerate((*earlier, tools)):
        new = [name for name in names if name not in known]
        random = Random(f"{seed}:withhold{f':{number}' if number else ''}")
        withheld.update(random.sample(new, round(config.withhold_tools * len(new))))
        known.update(new)
    return frozenset(withheld.intersection(tools))


def assign_splits(count: int, config: SplitConfig, seed: int) -> list[Split]:
    """The split of each position; shares are rounded.

    The published 8:1:1 shares are the default (ToolBank, arXiv 2409.02141).
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
