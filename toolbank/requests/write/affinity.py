"""Rate how well the tools of a bank go together, by their reference alone."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from toolbank.bank.records import Tool
from toolbank.requests.rules.english import GIVING, MAKING, find_verb
from toolbank.requests.write.config import NO_GROUP, SiblingGroups


def index_names(tools: Sequence[Tool]) -> dict[str, int]:
    """Map all names, aliases and unambiguous last parts to positions."""
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
    """Find the position of the tool that `tool`'s see-also list calls `name`."""
    module = tool.name.split(".")
    for depth in range(len(module) - 1, 0, -1):
        position = index.get(".".join([*module[:depth], name]))
        if position is not None:
            return position
    return index.get(name)


def link_tools(tools: Sequence[Tool]) -> list[set[int]]:
    """List for each tool the positions that it links to, or that link to it."""
    index = index_names(tools)
    links: list[set[int]] = [set() for _ in tools]
    for position, tool in enumerate(tools):
        for other in tool.see_also:
            found = find_name(other.name, tool, index)
            if found is not None and found != position:
                links[position].add(found)
                links[found].add(position)
    return links


_LINK = 1.0
_TYPE = 0.3
_MODULE = 0.3
_ALTERNATIVE = 0.6
_TERMS = 16
_NEIGHBOURS = 24


class Affinity:
    """How likely two tools of a bank are needed together."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._modules = [tool.name.rsplit(".", 1)[0] for tool in tools]
        self._vectors = _weigh_words(tools)
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for position, vector in enumerate(self._vectors):
            for word, weight in vector.items():
                self._postings[word].append((position, weight))
        self._links = link_tools(tools)
        self._gives = [_types(value.type for value in tool.returns) for tool in tools]
        self._takes = [
            _types(
                str(schema.get("format") or schema.get("type", ""))
                for schema in tool.parameters.get("properties", {}).values()
            )
            for tool in tools
        ]
        self._verbs = [_verb(tool) for tool in tools]

    def are_alternatives(self, first: int, second: int) -> bool:
        """Return whether two tools do nearly the same, so that hardly a request needs both.

        Their texts are similar, and they do not do different things to the same object, as "create"
        and "delete" do.
        """
        if self._verbs[first] != self._verbs[second]:
            return False
        return self._similarity(first, second) >= _ALTERNATIVE

    def between(self, first: int, second: int) -> float:
        """Rate two tools by position; 0 is no affinity."""
        return (
            self._similarity(first, second)
            + _LINK * (second in self._links[first])
            + _TYPE * bool(self._gives[first] & self._takes[second])
            + _MODULE * (self._modules[first] == self._modules[second])
        )

    def reason(self, first: int, second: int) -> str:
        """Say in a few words why two tools go together."""
        if second in self._links[first]:
            return "the reference links them"
        if self._gives[first] & self._takes[second]:
            return "one gives what the other takes"
        if self._modules[first] == self._modules[second]:
            return "they stand in the same module"
        return "their texts are alike"

    def neighbours(
        self, position: int, groups: SiblingGroups
    ) -> list[tuple[int, float]]:
        """List linked or similar tools with their affinities, the best first.

        Of each other sibling group at most one: the member with the highest affinity.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._vectors[position].items():
            for other, other_weight in self._postings[word]:
                scores[other] += weight * other_weight
        near = sorted(scores, key=lambda other: (-scores[other], other))
        of = groups.group_of
        similar = dict.fromkeys(of[other] for other in near)
        linked = {of[other] for other in self._links[position]}
        others = {*islice(similar, _NEIGHBOURS), *linked} - {of[position], NO_GROUP}
        rated = [
            min(
                ((other, self.between(position, other)) for other in members),
                key=_best_first,
            )
            for members in (groups.members[group] for group in sorted(others))
        ]
        return sorted((pair for pair in rated if pair[1] > 0), key=_best_first)

    def _similarity(self, first: int, second: int) -> float:
        a, b = self._vectors[first], self._vectors[second]
        return sum(weight * b[word] for word, weight in a.items() if word in b)


def _best_first(pair: tuple[int, float]) -> tuple[float, int]:
    return -pair[1], pair[0]


def split_name(name: str) -> str:
    """Split the last part of a name into words: "nan_to_num" -> "nan to num"."""
    last = name.rsplit(".", 1)[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", last).replace("_", " ").strip()


def _verb(tool: Tool) -> str:
    """What a tool does, by the first word of its summary or name; "" if it only gives something."""
    starts = (text.split(" ")[0] for text in (tool.summary, split_name(tool.name)))
    verb = next(filter(None, map(find_verb, starts)), "")
    return "" if verb in GIVING - MAKING else verb


def _weigh_words(tools: Sequence[Tool]) -> list[dict[str, float]]:
    """Unit TF-IDF vectors of name, summary and description, of each tool's heaviest words."""
    counts = [
        Counter(
            re.findall(
                r"[a-z]{3,}",
                f"{split_name(tool.name)} {tool.summary} {tool.description[:500]}".lower(),
            )
        )
        for tool in tools
    ]
    spread = Counter(word for count in counts for word in count)
    vectors = []
    for count in counts:
        weights = {
            word: (1 + math.log(n)) * math.log(len(tools) / spread[word])
            for word, n in count.items()
        }
        best = sorted(weights, key=lambda word: (-weights[word], word))[:_TERMS]
        length = math.sqrt(sum(weights[word] ** 2 for word in best)) or 1.0
        vectors.append({word: weights[word] / length for word in best})
    return vectors


def _types(texts: Iterable[str]) -> frozenset[str]:
    words = {word for text in texts for word in re.findall(r"[a-z]{4,}", text.lower())}
    return frozenset(words - {"optional", "array_like", "string", "object"})
