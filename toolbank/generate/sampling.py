"""Which tools an attempt is offered."""

from collections.abc import Iterator, Sequence
from random import Random

from toolbank.errors import InputError
from toolbank.generate.config import GenerateConfig
from toolbank.llm.chat import Offer, Offers


def make_offers(tools: Sequence[str], config: GenerateConfig, seed: int) -> Offers:
    """The offers of a recipe, for engines that bring none of their own.

    Raises:
        InputError: the bank has fewer tools than one attempt is offered.
    """
    if config.offered > len(tools):
        raise InputError(
            f"generate.offered: {config.offered} tools are to be offered in one attempt, and the "
            f"bank has {len(tools)}. Use a smaller number or more sources."
        )
    kind = DealtOffers if config.sampling == "deck" else UniformOffers
    return kind(tools, config, seed)


class DealtOffers:
    """Tools dealt like cards: each is offered equally often, none twice in one attempt.

    Attempt i holds the i-th T cards of endless shuffled decks; it depends on the seed and i only.
    """

    def __init__(self, tools: Sequence[str], config: GenerateConfig, seed: int) -> None:
        self._tools = tools
        self._config = config
        self._seed = seed
        self._dealing = self._deal()
        self._dealt: list[tuple[str, ...]] = []

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        while len(self._dealt) <= attempt:
            self._dealt.append(next(self._dealing))
        return Offer(
            self._dealt[attempt], draw_at_most(self._config, self._seed, attempt)
        )

    def _deal(self) -> Iterator[tuple[str, ...]]:
        size = self._config.offered
        left: list[str] = []
        deck = 0
        while True:
            fresh = list(self._tools)
            Random(f"{self._seed}:deck:{deck}").shuffle(fresh)
            deck += 1
            # A hand that ends one deck and begins the next must not hold a tool twice.
            held = set(left)
            fits = [tool for tool in fresh if tool not in held][: size - len(left)]
            hand, left = set(fits), left + fits
            left += [tool for tool in fresh if tool not in hand]
            while len(left) >= size:
                yield tuple(left[:size])
                left = left[size:]


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
