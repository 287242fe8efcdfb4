"""Group the tools of a bank, and find what other groups have that is similar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from random import Random

import numpy as np

from toolbank.bank.records import Tool
from toolbank.bank.split import find_family
from toolbank.retrievers.base import title_and_summary
from toolbank.retrievers.lexical import LexicalIndex

_MOST_TOOLS = 24
_OTHERS = 30
_ALONE = "tools without a module"


@dataclass(frozen=True)
class ToolGroup:
    """Tools that a prompt shows together: up to 24 of a tag, server, module or class."""

    name: str
    tools: tuple[Tool, ...]


def group_tools(tools: Sequence[Tool]) -> list[ToolGroup]:
    """Group tools by family, in the order of names; tools without a family form groups together.

    The family is that of `find_family`, or else what is before the first slash of a name. Larger
    families are parted evenly in the order of names, so that tools of similar names stay together.
    """
    families: dict[str, list[Tool]] = {}
    for tool in sorted(tools, key=lambda tool: tool.name):
        family = find_family(tool)
        if family == tool.name:
            before, slash, _ = tool.name.partition("/")
            family = before if slash else ""
        families.setdefault(family, []).append(tool)
    groups = []
    for family, members in sorted(families.items()):
        n_parts = ceil(len(members) / _MOST_TOOLS)
        ends = [round(part * len(members) / n_parts) for part in range(n_parts + 1)]
        for start, end in pairwise(ends):
            part = tuple(members[start:end])
            name = family if n_parts == 1 else f"{part[0].name} to {part[-1].name}"
            groups.append(ToolGroup(name or _ALONE, part))
    return groups


def draw_groups(
    groups: Sequence[ToolGroup], n: int | None, seed: int
) -> list[ToolGroup]:
    """Draw n groups at random, in their order; a larger draw contains the smaller one."""
    lots = {
        group.name: Random(f"{seed}:missing:{group.name}").random() for group in groups
    }
    chosen = set(sorted(lots, key=lambda name: (lots[name], name))[:n])
    return [group for group in groups if group.name in chosen]


class SimilarTools:
    """The tools outside a group that are most similar to it, by BM25 over names and summaries."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = sorted(tools, key=lambda tool: tool.name)
        self._index = LexicalIndex.of([title_and_summary(one) for one in self._tools])

    def find(self, group: ToolGroup) -> list[Tool]:
        """Find up to 30 of them, the most similar first; ties are ordered by name."""
        own = {tool.name for tool in group.tools}
        [scores] = self._index.scores(["\n".join(map(title_and_summary, group.tools))])
        order = np.argsort(-scores, kind="stable").tolist()
        found = (self._tools[place] for place in order if scores[place] > 0)
        return [tool for tool in found if tool.name not in own][:_OTHERS]
