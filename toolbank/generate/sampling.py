"""Which tools an attempt is offered."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

from toolbank.bank.records import Tool
from toolbank.chat.chat import Offer, Offers
from toolbank.generate.affinity import Affinity
from toolbank.generate.config import GenerateConfig
from toolbank.generate.families import Families
from toolbank.generate.related import RelatedOffers
from toolbank.generate.tool_numbers import draw_numbers, fit_to_tools

_DECKS_AT_HAND = 4


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


def _draw_uniformly(cards: int, size: int, seed: int) -> Callable[[int], Sequence[int]]:
    """Hands of T cards drawn without replacement, as in the paper."""
    return lambda hand: Random(f"{seed}:uniform:{hand}").sample(range(cards), size)
