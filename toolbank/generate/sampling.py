"""Which tools an attempt is offered."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from toolbank.chat.chat import Offer, Offers
from toolbank.generate.config import GenerateConfig
from toolbank.system.errors import InputError

_DECKS_AT_HAND = 4


def make_offers(tools: Sequence[str], config: GenerateConfig, seed: int) -> Offers:
    """The offers of a recipe, for engines that bring none of their own.

    Raises:
        InputError: the bank has fewer tools than one attempt is offered.
    """
    check_offered(len(tools), config)
    kind = DealtOffers if config.sampling == "deck" else UniformOffers
    return kind(tools, config, seed)


def check_offered(tools: int, config: GenerateConfig) -> None:
    """Refuse to offer more tools in an attempt than there are.

    Raises:
        InputError: the bank has fewer.
    """
    if config.offered > tools:
        raise InputError(
            f"generate.offered: {config.offered} tools are to be offered in one attempt, and the "
            f"bank has {tools}. {_advise(tools, config)}"
        )


def _advise(tools: int, config: GenerateConfig) -> str:
    if tools < config.min_tools:
        return f"Add sources: a query uses {config.min_tools} at least."
    settings = f"generate.offered={tools}"
    if config.max_tools > tools:
        settings += f" and generate.max_tools={tools}"
    return f"Set {settings}, or add sources."


class DealtOffers:
    """Tools dealt like cards: each is offered equally often, none twice in one attempt.

    Attempt i holds the i-th T cards of endless shuffled decks; it depends on the seed and i only.
    Kept of each deck is what was left of the one before it, fewer than T tools.
    """

    def __init__(self, tools: Sequence[str], config: GenerateConfig, seed: int) -> None:
        self._tools = tools
        self._config = config
        self._seed = seed
        self._left: list[tuple[str, ...]] = [()]
        self._hands = lru_cache(_DECKS_AT_HAND)(self._deal)

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        size, count = self._config.offered, len(self._tools)
        # The deck that holds the last card of the hand completes it.
        deck = ((attempt + 1) * size - 1) // count
        while len(self._left) <= deck:
            self._hands(len(self._left) - 1)
        hand = self._hands(deck)[attempt - deck * count // size]
        return Offer(hand, draw_at_most(self._config, self._seed, attempt))

    def _deal(self, deck: int) -> list[tuple[str, ...]]:
        """The hands that a deck completes."""
        size = self._config.offered
        left = list(self._left[deck])
        fresh = list(self._tools)
        Random(f"{self._seed}:deck:{deck}").shuffle(fresh)
        # A hand that ends one deck and begins the next must not hold a tool twice.
        held = set(left)
        fits = [tool for tool in fresh if tool not in held][: size - len(left)]
        first = set(fits)
        cards = left + fits + [tool for tool in fresh if tool not in first]
        hands = [
            tuple(cards[start : start + size])
            for start in range(0, len(cards) - size + 1, size)
        ]
        if len(self._left) == deck + 1:
            self._left.append(tuple(cards[len(hands) * size :]))
        return hands


class UniformOffers:
    """T tools drawn without replacement in each attempt, as in the paper."""

    def __init__(self, tools: Sequence[str], config: GenerateConfig, seed: int) -> None:
        self._tools = tools
        self._config = config
        self._seed = seed

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        drawn = Random(f"{self._seed}:uniform:{attempt}").sample(
            self._tools, self._config.offered
        )
        return Offer(tuple(drawn), draw_at_most(self._config, self._seed, attempt))


def draw_at_most(config: GenerateConfig, seed: int, attempt: int) -> int:
    """M, the most tools that the query of this attempt may use."""
    return Random(f"{seed}:{attempt}").randint(config.min_tools, config.max_tools)
