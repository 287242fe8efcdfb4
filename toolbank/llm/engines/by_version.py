"""An engine that reads the tools, made for each version of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from toolbank.bank.catalogue import Version, find_version
from toolbank.chat.chat import ChatReply, ChatRequest, Engine, Offer, Offers


class EngineByVersion:
    """Each attempt is offered and answered by the engine of the version that it was begun under.

    Its identity is that of the first, so that what the journal has stays good: no two versions
    deal the same attempt. What it lacks is what the newest one does.
    """

    def __init__(self, engines: Sequence[Engine], earlier: Sequence[Version]) -> None:
        self._engines = engines
        self._earlier = earlier
        newest = engines[-1]
        self.name, self.model = newest.name, newest.model
        self.identity = engines[0].identity
        self.missing: dict[str, int] = getattr(newest, "missing", {})
        self.unused: dict[str, int] = getattr(newest, "unused", {})

    @property
    def offers(self) -> Offers | None:
        """The attempts that the engines bring, if they do."""
        return None if self._engines[-1].offers is None else self

    def offer(self, attempt: int) -> Offer | None:
        """The offer of an attempt, or None past the last one."""
        offers = self._engine_of(attempt).offers
        return None if offers is None else offers.offer(attempt)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            EngineError: no answer came.
        """
        return await self._engine_of(request.attempt).answer(request)

    async def close(self) -> None:
        """Let go of what the engines hold."""
        for engine in self._engines:
            await engine.close()

    def _engine_of(self, attempt: int) -> Engine:
        return self._engines[find_version(attempt, self._earlier)]
