"""How well two tools go together: links, shared types, shared modules, similar texts."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from toolbank.bank.records import Tool
from toolbank.generate.families import Families
from toolbank.generate.see_also import link_tools

_LINK = 1.0
_TYPE = 0.3
_MODULE = 0.3
_TERMS_KEPT = 16
_NEIGHBOURS = 24


class Affinity:
    """Who goes with whom among the tools of a bank."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._modules = [tool.name.rsplit(".", 1)[0] for tool in tools]
        self._vectors = _weigh_words(tools)
        self._postings = _post(self._vectors)
        self._links = link_tools(tools)
        self._gives = [_types(value.type for value in tool.returns) for tool in tools]
        self._takes = [
            _types(
                str(schema.get("format") or schema.get("type", ""))
                for schema in tool.parameters.get("properties", {}).values()
            )
            for tool in tools
        ]

    def between(self, first: int, second: int) -> float:
        """The affinity of two tools, by position; 0 is none."""
        return (
            self._similarity(first, second)
            + _LINK * (second in self._links[first])
            + _TYPE * bool(self._gives[first] & self._takes[second])
            + _MODULE * (self._modules[first] == self._modules[second])
        )

    def reason(self, first: int, second: int) -> str:
        """Why two tools go together, in a few words."""
        if second in self._links[first]:
            return "the reference links them"
        if self._gives[first] & self._takes[second]:
            return "one gives what the other takes"
        if self._modules[first] == self._modules[second]:
            return "they stand in the same module"
        return "their texts are alike"

    def neighbours(self, position: int, families: Families) -> list[tuple[int, float]]:
        """Tools that are linked to a tool or speak of the same, with affinities, best first.

        Of each other family one at most: its member that goes with the tool best.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._vectors[position].items():
            for other, other_weight in self._postings[word]:
                scores[other] += weight * other_weight
        near = sorted(scores, key=lambda other: (-scores[other], other))
        kin = dict.fromkeys(families.of[other] for other in near)
        linked = {families.of[other] for other in self._links[position]}
        others = {*islice(kin, _NEIGHBOURS), *linked} - {families.of[position]}
        rated = [
            min(
                ((other, self.between(position, other)) for other in members),
                key=_best_first,
            )
            for members in (families.members[family] for family in sorted(others))
        ]
        return sorted((pair for pair in rated if pair[1] > 0), key=_best_first)

    def _similarity(self, first: int, second: int) -> float:
        a, b = self._vectors[first], self._vectors[second]
        return sum(weight * b[word] for word, weight in a.items() if word in b)


def _best_first(pair: tuple[int, float]) -> tuple[float, int]:
    return -pair[1], pair[0]


def split_name(name: str) -> str:
    """The last part of a name as words: "nan_to_num" -> "nan to num"."""
    last = name.rsplit(".", 1)[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", last).replace("_", " ").strip()


def _weigh_words(tools: Sequence[Tool]) -> list[dict[str, float]]:
    """TF-IDF over name, summary and description: each tool's weightiest words, of length 1."""
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
        best = sorted(weights, key=lambda word: (-weights[word], word))[:_TERMS_KEPT]
        length = math.sqrt(sum(weights[word] ** 2 for word in best)) or 1.0
        vectors.append({word: weights[word] / length for word in best})
    return vectors


def _post(vectors: Sequence[dict[str, float]]) -> dict[str, list[tuple[int, float]]]:
    postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for position, vector in enumerate(vectors):
        for word, weight in vector.items():
            postings[word].append((position, weight))
    return dict(postings)


def _types(texts: Iterable[str]) -> frozenset[str]:
    words = {word for text in texts for word in re.findall(r"[a-z]{4,}", text.lower())}
    return frozenset(words - {"optional", "array_like", "string", "object"})
