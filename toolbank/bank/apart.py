"""Splits that share nothing: what is held out, no train request has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from random import Random
from typing import Literal

from toolbank.bank.bank import Bank
from toolbank.bank.call import McpCall
from toolbank.bank.records import Query, Split, Tool

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
