"""Which tools an attempt is offered."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from toolbank.chat.chat import Offer, Offers
from toolbank.generate.config import GenerateConfig
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

_DECKS_AT_HAND = 4


def make_offers(tools: Sequence[str], config: GenerateConfig, seed: int) -> Offers:
    """The offers of a recipe, for engines that bring none of their own.

    Raises:
        InputError: the bank has fewer tools than a query uses.
    """
    config = fit_to_tools(config, len(tools))
    kind = DealtOffers if config.sampling == "deck" else UniformOffers
    return kind(tools, config, seed)


def fit_to_tools(config: GenerateConfig, tools: int) -> GenerateConfig:
    """The settings for a bank of so many tools: no more are offered, or asked for, than there are.

    Raises:
        InputError: the bank has fewer than any query uses.
    """
    if tools < config.fewest_tools:
        key = "tools_per_query" if config.tools_per_query else "min_tools"
        raise InputError(
            f"generate.{key}: a query uses {count(config.fewest_tools, 'tool')} at least, and "
            f"the bank has {tools}. Add sources, or ask for fewer."
        )
    shares = config.tools_per_query and {
        number: share
        for number, share in config.tools_per_query.items()
        if number <= tools
    }
    return config.model_copy(
        update={
            "offered": min(config.offered, tools),
            "max_tools": min(config.most_tools, tools),
            "tools_per_query": shares,
        }
    )


def describe_fit(config: GenerateConfig, tools: int) -> str:
    """What `fit_to_tools` changes, for people; "" if nothing."""
    if config.offered <= tools:
        return ""
    said = f"offered: the bank has {count(tools, 'tool')}, so that {tools} and not {config.offered} "
    said += f"{'is' if tools == 1 else 'are'} offered in an attempt"
    if config.most_tools > tools:
        said += f", and a query uses at most {tools}"
    return said


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
        return Offer(hand, *draw_numbers(self._config, self._seed, attempt))

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
        return Offer(tuple(drawn), *draw_numbers(self._config, self._seed, attempt))


def draw_numbers(config: GenerateConfig, seed: int, attempt: int) -> tuple[int, int]:
    """The most and the fewest tools that the query of this attempt may use."""
    random = Random(f"{seed}:{attempt}")
    if shares := config.tools_per_query:
        numbers = sorted(shares)
        [number] = random.choices(numbers, [shares[number] for number in numbers])
        return number, number
    return random.randint(config.fewest_tools, config.most_tools), config.fewest_tools
