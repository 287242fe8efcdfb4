"""Which tools an attempt is offered."""

from collections.abc import Callable, Sequence
from random import Random

from toolbank.bank.records import Tool
from toolbank.generate.affinity import Affinity
from toolbank.generate.config import GenerateConfig
from toolbank.generate.decks import Decks
from toolbank.generate.families import Families
from toolbank.generate.related import RelatedOffers
from toolbank.generate.tool_numbers import draw_numbers, fit_to_tools
from toolbank.llm.chat import Offer, Offers


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
