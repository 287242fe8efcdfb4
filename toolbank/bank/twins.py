"""Group tools that no request can tell apart (twins), and members with the same text (siblings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolbank.bank.records import Tool


def find_first_twins(tools: Sequence[Tool]) -> tuple[int, ...]:
    """For each tool, return the position of its first twin, or its own.

    Twins of a twin are twins. Unknown names are skipped.
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
    """For each number below `count`, return the least number that it is connected to by pairs."""
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
    """Group siblings, in the order of the first tool of each group.

    Siblings are methods or properties of several classes with the same last part of the name and
    the same summary, such as `is_on_offset` of each class of dates.
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
