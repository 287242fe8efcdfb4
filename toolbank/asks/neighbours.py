"""The tools that are most easily taken for another one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from toolbank.bank.records import Tool
from toolbank.retrievers.lexical import LexicalIndex

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


class Neighbours:
    """The nearest tools by BM25 over the words of name, summary and parameters' names.

    Exact: each tool's text is scored against all. `groups` are siblings, of which the first
    stands for all; those of the same score come by name.
    """

    def __init__(self, groups: Sequence[Sequence[Tool]]) -> None:
        groups = sorted(groups, key=lambda group: group[0].name)
        self._tools = [group[0] for group in groups]
        self._places = {
            tool.name: place for place, group in enumerate(groups) for tool in group
        }
        self._index = LexicalIndex.of([_describe(tool) for tool in self._tools])

    def find(self, tool: Tool, k: int) -> list[Tool]:
        """Up to `k` others, the nearest first; none that shares no word, and no sibling."""
        own = self._places[tool.name]
        [scores] = self._index.scores([_describe(tool)])
        # They lie by name, and a stable sort leaves equals so.
        order = np.argsort(-scores, kind="stable")[: k + 1].tolist()
        return [
            self._tools[place] for place in order if place != own and scores[place] > 0
        ][:k]


def _describe(tool: Tool) -> str:
    parameters = tool.parameters.get("properties", {})
    text = "\n".join([tool.name, tool.summary or tool.description, *parameters])
    return _SEPARATOR.sub(" ", _HUMP.sub(" ", text))
