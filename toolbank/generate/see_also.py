"""Which tool a see-also list means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolbank.bank.records import Tool


def index_names(tools: Sequence[Tool]) -> dict[str, int]:
    """Positions of all names, aliases included; unambiguous last parts too."""
    lasts = Counter(tool.name.rsplit(".", 1)[-1] for tool in tools)
    index = {
        last: position
        for position, tool in enumerate(tools)
        if lasts[last := tool.name.rsplit(".", 1)[-1]] == 1
    }
    for position, tool in enumerate(tools):
        index.update(dict.fromkeys(tool.aliases, position))
    index.update({tool.name: position for position, tool in enumerate(tools)})
    return index


def find_name(name: str, tool: Tool, index: dict[str, int]) -> int | None:
    """The position of the tool that `tool`'s see-also list calls `name`."""
    module = tool.name.split(".")
    for depth in range(len(module) - 1, 0, -1):
        position = index.get(".".join([*module[:depth], name]))
        if position is not None:
            return position
    return index.get(name)


def link_tools(tools: Sequence[Tool]) -> list[set[int]]:
    """The positions that each tool's see-also list names, or whose lists name it."""
    index = index_names(tools)
    links: list[set[int]] = [set() for _ in tools]
    for position, tool in enumerate(tools):
        for other in tool.see_also:
            found = find_name(other.name, tool, index)
            if found is not None and found != position:
                links[position].add(found)
                links[found].add(position)
    return links
