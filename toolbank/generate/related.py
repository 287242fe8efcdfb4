"""A tool dealt from a deck, and others that are likely to be needed with it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.bank.records import Tool
from toolbank.generate.affinity import Affinity
from toolbank.generate.config import GenerateConfig
from toolbank.generate.decks import Decks
from toolbank.generate.families import Families
from toolbank.generate.tool_numbers import draw_numbers, fit_to_tools
from toolbank.llm.chat import Offer

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
