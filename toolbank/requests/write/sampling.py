"""Sample the candidate tools of each attempt."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from random import Random

from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatRequest, Offer, Offers, Rejection
from toolbank.requests.write.checks import Checker, Draft
from toolbank.requests.write.config import (
    GenerateConfig,
    SiblingGroups,
    draw_numbers,
    fit_to_tools,
)
from toolbank.requests.write.prompts import WriterPrompts

_CACHED_SHUFFLES = 4


class ShuffledSampler:
    """Sample candidate sets from shuffles without replacement.

    Set i is the i-th run of `size` items of endless shuffles of `items` numbers: each number comes
    equally often, and never twice in one set. A set depends on the seed and on i alone. Only what a
    shuffle leaves over for the next one is stored, fewer than `size` items each.
    """

    def __init__(self, items: int, size: int, seed: int) -> None:
        self._items = items
        self._size = size
        self._seed = seed
        self._leftovers: list[tuple[int, ...]] = [()]
        self._sets = lru_cache(_CACHED_SHUFFLES)(self._complete)

    def sample(self, number: int) -> tuple[int, ...]:
        """Sample candidate set `number`."""
        # The shuffle with the last item of the set completes it.
        shuffle = ((number + 1) * self._size - 1) // self._items
        while len(self._leftovers) <= shuffle:
            self._sets(len(self._leftovers) - 1)
        return self._sets(shuffle)[number - shuffle * self._items // self._size]

    def _complete(self, shuffle: int) -> list[tuple[int, ...]]:
        """The sets that a shuffle completes."""
        size, left = self._size, list(self._leftovers[shuffle])
        fresh = list(range(self._items))
        Random(f"{self._seed}:deck:{shuffle}").shuffle(fresh)
        # A set that begins with the leftovers must not have an item twice.
        kept = set(left)
        first = [item for item in fresh if item not in kept][: size - len(left)]
        moved = set(first)
        items = left + first + [item for item in fresh if item not in moved]
        whole = len(items) // size * size
        if len(self._leftovers) == shuffle + 1:
            self._leftovers.append(tuple(items[whole:]))
        return [tuple(items[n : n + size]) for n in range(0, whole, size)]


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
        others = {*islice(similar, _NEIGHBOURS), *linked} - {of[position]}
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


_RELATED = 0.6


class _GroupOffers:
    """The sibling groups of a bank, and the settings that fit their number.

    Raises:
        InputError: the bank has fewer tools than a query uses.
    """

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        self._tools = tools
        self._groups = SiblingGroups(tools, together=config.families)
        self._config = fit_to_tools(config, tools)
        self._seed = seed

    def _random(self, purpose: str, attempt: int) -> Random:
        return Random(f"{self._seed}:{purpose}:{attempt}")

    def _make(self, positions: Sequence[int], at_most: int, at_least: int) -> Offer:
        names = tuple(self._tools[position].name for position in positions)
        return Offer(names, at_most, at_least)


class RelatedOffers(_GroupOffers):
    """Offer tools that are likely to be needed together.

    The first tool comes from shuffles without replacement, so each sibling group is offered equally
    often. More than half of the others are related to it, drawn by their affinity; the rest is
    random. An offer depends on the tools, the configuration, the seed and its number alone.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        seed: int,
        affinity: Affinity,
    ) -> None:
        super().__init__(tools, config, seed)
        self._affinity = affinity
        self._first = ShuffledSampler(len(self._groups), 1, seed)

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of an attempt."""
        groups, size = self._groups, self._config.offered
        random = self._random("offer", attempt)
        members = self._random("member", attempt)
        chosen = groups.choose(self._first.sample(attempt), members)
        neighbours = self._affinity.neighbours(chosen[0], groups)
        n_related = round(_RELATED * size)
        while neighbours and len(chosen) <= min(n_related, size - 1):
            weights = [affinity for _, affinity in neighbours]
            picked = random.choices(range(len(neighbours)), weights)[0]
            chosen.append(neighbours.pop(picked)[0])
        used = {groups.group_of[n] for n in chosen}
        rest = [group for group in range(len(groups)) if group not in used]
        drawn = random.sample(rest, size - len(chosen))
        chosen += groups.choose(drawn, members, chosen)
        if self._config.tools_per_query:
            numbers = draw_numbers(self._config, self._seed, attempt)
            return self._make(chosen, *numbers)
        at_least = self._config.fewest_tools
        at_most = random.randint(at_least, self._config.most_tools)
        return self._make(chosen, at_most, at_least)


class RandomOffers(_GroupOffers):
    """Offer sibling groups sampled without regard to what the tools do."""

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        super().__init__(tools, config, seed)
        size = self._config.offered
        self._shuffled = ShuffledSampler(len(self._groups), size, seed)

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of an attempt."""
        groups: Sequence[int] = self._shuffled.sample(attempt)
        if self._config.sampling == "uniform":
            random = self._random("uniform", attempt)
            groups = random.sample(range(len(self._groups)), self._config.offered)
        chosen = self._groups.choose(groups, self._random("member", attempt))
        return self._make(chosen, *draw_numbers(self._config, self._seed, attempt))


def make_offers(tools: Sequence[Tool], config: GenerateConfig, seed: int) -> Offers:
    """Make the offers of a recipe, for engines without offers of their own.

    Raises:
        InputError: the bank has fewer tools than a query uses.
    """
    if config.sampling == "related":
        return RelatedOffers(tools, config, seed, Affinity(tools))
    return RandomOffers(tools, config, seed)


# More than the attempts that are open at a time: an offer is read while its attempt runs.
_CACHED_OFFERS = 8192


class Sampler:
    """Sample, prompt and check the attempts of one version of the catalogue.

    `offers` are those of an engine that brings its own.

    Raises:
        InputError: the bank is too small, or the examples can't be read.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        domain: str,
        seed: int,
        offers: Offers | None = None,
    ) -> None:
        made = offers or make_offers(tools, config, seed)
        self.offer = lru_cache(_CACHED_OFFERS)(made.offer)
        self.prompts = WriterPrompts(domain, config, seed)
        self.checker = Checker(tools, config, self.prompts.example_queries)
        self._tools = {tool.name: tool for tool in tools}

    def write_request(self, number: int) -> ChatRequest:
        """Make the write request of an attempt, which has to have an offer."""
        offer, tools = self._find(number)
        return self.prompts.write(number, tools, offer.at_most, offer.at_least)

    def check_draft(self, number: int, draft: Draft) -> tuple[Tool, ...] | Rejection:
        """Return the tools of an attempt's draft, or why it can't be used."""
        offer, tools = self._find(number)
        return self.checker.check_draft(draft, tools, offer.at_most)

    def _find(self, number: int) -> tuple[Offer, tuple[Tool, ...]]:
        offer = self.offer(number)
        if offer is None:
            raise ValueError(f"there is no attempt {number}")
        return offer, tuple(self._tools[name] for name in offer.tools)
