"""What attempts are dealt from a version of the catalogue: their hands, prompts and checks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from toolbank.bank.catalogue import Version, find_version
from toolbank.bank.records import Tool
from toolbank.generate.checks import Checker
from toolbank.generate.config import GenerateConfig
from toolbank.generate.prompts import Prompts
from toolbank.generate.sampling import make_offers
from toolbank.llm.chat import ChatRequest, Offers

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
        self.prompts = Prompts(domain, config, seed)
        self.checker = Checker(tools, config)
        self._tools = {tool.name: tool for tool in tools}

    def write_request(self, number: int) -> ChatRequest | None:
        """What the writer is asked in an attempt, or None past the last one."""
        offer = self.offer(number)
        if offer is None:
            return None
        tools = tuple(self._tools[name] for name in offer.tools)
        return self.prompts.write(number, tools, offer.at_most, offer.at_least)


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
        earlier: Sequence[Version] = (),
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
