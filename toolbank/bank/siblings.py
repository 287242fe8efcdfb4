"""Tools that are one and the same thing to who asks, on several classes."""

from __future__ import annotations

from collections.abc import Sequence

from toolbank.bank.records import Tool

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
