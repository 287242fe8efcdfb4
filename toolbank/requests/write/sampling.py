"""Sample the candidate tools of each attempt."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from random import Random

from toolbank.bank.catalogue import CatalogueVersion, find_version
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatRequest, Offer, Offers, Rejection
from toolbank.requests.write.checks import Checker, Draft
from toolbank.requests.write.config import (
    Families,
    GenerateConfig,
    draw_numbers,
    fit_to_tools,
)
from toolbank.requests.write.prompts import WriterPrompts

_DECKS_AT_HAND = 4


class Decks:
    """Cards dealt: each comes equally often, none twice in one hand.

    Hand i holds the i-th T cards of endless shuffled decks; it depends on the seed and i only.
    Kept of each deck is what was left of the one before it, fewer than T cards.
    """

    def __init__(self, cards: int, size: int, seed: int) -> None:
        self._cards = cards
        self._size = size
        self._seed = seed
        self._left: list[tuple[int, ...]] = [()]
        self._hands = lru_cache(_DECKS_AT_HAND)(self._complete)

    def deal(self, hand: int) -> tuple[int, ...]:
        """The cards of a hand."""
        # The deck that holds the last card of the hand completes it.
        deck = ((hand + 1) * self._size - 1) // self._cards
        while len(self._left) <= deck:
            self._hands(len(self._left) - 1)
        return self._hands(deck)[hand - deck * self._cards // self._size]

    def _complete(self, deck: int) -> list[tuple[int, ...]]:
        """The hands that a deck completes."""
        size = self._size
        left = list(self._left[deck])
        fresh = list(range(self._cards))
        Random(f"{self._seed}:deck:{deck}").shuffle(fresh)
        # A hand that ends one deck and begins the next must not hold a card twice.
        held = set(left)
        fits = [card for card in fresh if card not in held][: size - len(left)]
        first = set(fits)
        cards = left + fits + [card for card in fresh if card not in first]
        hands = [
            tuple(cards[start : start + size])
            for start in range(0, len(cards) - size + 1, size)
        ]
        if len(self._left) == deck + 1:
            self._left.append(tuple(cards[len(hands) * size :]))
        return hands


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


_RELATED = 0.6


class RelatedOffers:
    """Offer i is a function of the tools, the configuration, the seed and i alone.

    The first tool of an offer comes from shuffled decks, so that every family is dealt equally
    often; more than half of the others go with it, the likelier the more they do; the rest is
    random.

    Raises:
        InputError: the bank has fewer tools than a query uses.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        seed: int,
        affinity: Affinity,
    ) -> None:
        self._tools = tools
        self._families = Families(tools, together=config.families)
        self._config = fit_to_tools(config, tools)
        self._seed = seed
        self._affinity = affinity
        self._deal = Decks(len(self._families), 1, seed).deal

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        families, size = self._families, self._config.offered
        random = Random(f"{self._seed}:offer:{attempt}")
        members = Random(f"{self._seed}:member:{attempt}")
        chosen = families.choose(self._deal(attempt), members)
        neighbours = self._affinity.neighbours(chosen[0], families)
        n_related = round(_RELATED * size)
        while neighbours and len(chosen) <= min(n_related, size - 1):
            weights = [affinity for _, affinity in neighbours]
            picked = random.choices(range(len(neighbours)), weights)[0]
            chosen.append(neighbours.pop(picked)[0])
        held = {families.of[n] for n in chosen}
        rest = [family for family in range(len(families)) if family not in held]
        drawn = random.sample(rest, size - len(chosen))
        chosen += families.choose(drawn, members, chosen)
        at_least, at_most = self._config.fewest_tools, self._config.most_tools
        if self._config.tools_per_query:
            at_most, at_least = draw_numbers(self._config, self._seed, attempt)
        else:
            at_most = random.randint(at_least, at_most)
        return Offer(tuple(self._tools[n].name for n in chosen), at_most, at_least)


def make_offers(tools: Sequence[Tool], config: GenerateConfig, seed: int) -> Offers:
    """The offers of a recipe, for engines that bring none of their own.

    Raises:
        InputError: the bank has fewer tools than a query uses.
    """
    if config.sampling == "related":
        return RelatedOffers(tools, config, seed, Affinity(tools))
    families = Families(tools, together=config.families)
    config = fit_to_tools(config, tools)
    if config.sampling == "uniform":
        deal = _draw_uniformly(len(families), config.offered, seed)
    else:
        deal = Decks(len(families), config.offered, seed).deal
    return RandomOffers(tools, families, config, seed, deal)


class RandomOffers:
    """Offers of hands that are dealt without a look at the tools; `deal` gives families."""

    def __init__(
        self,
        tools: Sequence[Tool],
        families: Families,
        config: GenerateConfig,
        seed: int,
        deal: Callable[[int], Sequence[int]],
    ) -> None:
        self._tools = tools
        self._families = families
        self._config = config
        self._seed = seed
        self._deal = deal

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        chosen = self._deal(attempt)
        if self._families.has_siblings:
            random = Random(f"{self._seed}:member:{attempt}")
            chosen = self._families.choose(chosen, random)
        names = tuple(self._tools[position].name for position in chosen)
        return Offer(names, *draw_numbers(self._config, self._seed, attempt))


def _draw_uniformly(cards: int, size: int, seed: int) -> Callable[[int], Sequence[int]]:
    """Hands of T cards drawn without replacement, as in the paper."""
    return lambda hand: Random(f"{seed}:uniform:{hand}").sample(range(cards), size)


# Each is looked at where an attempt is begun, and used a moment later.
_OFFERS_AT_HAND = 2048


class Dealing:
    """Deals attempts from one version. `offers` are those that an engine brings.

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
        self.offer = lru_cache(_OFFERS_AT_HAND)(made.offer)
        self.prompts = WriterPrompts(domain, config, seed)
        self.checker = Checker(tools, config)
        self._tools = {tool.name: tool for tool in tools}

    def write_request(self, number: int) -> ChatRequest | None:
        """What the writer is asked in an attempt, or None past the last one."""
        offer = self.offer(number)
        if offer is None:
            return None
        tools = self._show(offer)
        return self.prompts.write(number, tools, offer.at_most, offer.at_least)

    def check_draft(self, number: int, draft: Draft) -> tuple[Tool, ...] | Rejection:
        """The tools of an attempt's draft, or why it can't be used."""
        offer = self.offer(number)
        if offer is None:
            raise ValueError(f"there is no attempt {number}")
        return self.checker.check_draft(draft, self._show(offer), offer.at_most)

    def _show(self, offer: Offer) -> tuple[Tool, ...]:
        return tuple(self._tools[name] for name in offer.tools)


class Dealings:
    """Deals each attempt from the version that it was begun under.

    Raises:
        InputError: as `Dealing` does.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        domain: str,
        seed: int,
        offers: Offers | None = None,
        earlier: Sequence[CatalogueVersion] = (),
    ) -> None:
        self._earlier = earlier
        self._versions = [
            Dealing(each, config, domain, seed, offers)
            for each in (*(version.tools for version in earlier), tools)
        ]

    @property
    def newest(self) -> Dealing:
        """The one for attempts to come."""
        return self._versions[-1]

    def of(self, number: int) -> Dealing:
        """The one of an attempt."""
        return self._versions[find_version(number, self._earlier)]
