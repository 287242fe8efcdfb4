"""Which tools an attempt is offered: one dealt from a deck, and others that go with it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.bank.records import Tool
from toolbank.chat.chat import Offer
from toolbank.generate.sampling import draw_numbers, fit_to_tools
from toolbank.generate.writers.rules.affinity import Affinity

if TYPE_CHECKING:
    from toolbank.generate.config import GenerateConfig

_RELATED = 0.6


class AffinityOffers:
    """Offer i is a function of the tools, the configuration, the seed and i alone.

    The first tool of an offer, which the request will be about, comes from shuffled decks, so
    that every tool is dealt equally often; more than half of the others go with it.

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
        self._config = fit_to_tools(config, len(tools))
        self._seed = seed
        self._affinity = affinity
        self._decks: dict[int, list[int]] = {}

    def offer(self, attempt: int) -> Offer:
        """Offer the tools of attempt `attempt`."""
        random = Random(f"{self._seed}:offer:{attempt}")
        chosen = [self._deal(attempt)]
        neighbours = self._affinity.neighbours(chosen[0])
        n_related = round(_RELATED * self._config.offered)
        while neighbours and len(chosen) <= min(n_related, self._config.offered - 1):
            weights = [affinity for _, affinity in neighbours]
            picked = random.choices(range(len(neighbours)), weights)[0]
            chosen.append(neighbours.pop(picked)[0])
        held = set(chosen)
        rest = [n for n in range(len(self._tools)) if n not in held]
        chosen += random.sample(rest, self._config.offered - len(chosen))
        at_least, at_most = self._config.fewest_tools, self._config.most_tools
        if self._config.tools_per_query:
            at_most, at_least = draw_numbers(self._config, self._seed, attempt)
        else:
            at_most = random.randint(at_least, at_most)
        return Offer(tuple(self._tools[n].name for n in chosen), at_most, at_least)

    def _deal(self, attempt: int) -> int:
        number, place = divmod(attempt, len(self._tools))
        if number not in self._decks:
            deck = list(range(len(self._tools)))
            Random(f"{self._seed}:deck:{number}").shuffle(deck)
            self._decks[number] = deck
        return self._decks[number][place]
