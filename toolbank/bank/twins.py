"""Find tools that no request can tell apart, by their records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolbank.bank.records import Tool


def find_first_twins(tools: Sequence[Tool]) -> tuple[int, ...]:
    """For each tool the position of the first of its twins, or its own.

    Tools that have a twin in common are twins. A twin that is none of the tools is left out.
    """
    index = {tool.name: position for position, tool in enumerate(tools)}
    pairs = (
        (position, index[name])
        for position, tool in enumerate(tools)
        for name in tool.twins
        if name in index
    )
    return join_pairs(len(tools), pairs)


def join_pairs(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """For each of 0 to count - 1 the least number that pairs lead to from it, either way."""
    least = list(range(count))

    def find(number: int) -> int:
        while least[number] != number:
            least[number] = number = least[least[number]]
        return number

    for one, other in pairs:
        low, high = sorted((find(one), find(other)))
        least[high] = low
    return tuple(map(find, range(count)))


_MEMBERS = ("method", "property")


def group_siblings(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """The tools in their order, with siblings together at the place of the first.

    Siblings are methods or properties of several classes that have the last part of the name and
    the summary in common, such as `is_on_offset` of each class of dates.
    """
    groups: dict[tuple[str, ...], list[Tool]] = {}
    for tool in tools:
        key: tuple[str, ...] = (tool.name,)
        if tool.kind in _MEMBERS and "." in tool.name:
            key = (
                tool.name.rpartition(".")[2],
                tool.kind,
                " ".join(tool.summary.split()),
            )
        groups.setdefault(key, []).append(tool)
    return [tuple(group) for group in groups.values()]
