"""Attempts that fail one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.system.errors import ToolbankError

if TYPE_CHECKING:
    from toolbank.chat.chat import EngineError
    from toolbank.llm.pool import Pool

# So many attempts in a row: refused, and failed in ways that may pass.
_REFUSED = 10
_FAILED = 100


class FailuresInARow:
    """Stops a pool where call after call is refused, or fails however often it is tried."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._count = 0

    def end(self) -> None:
        """Note an attempt whose calls were answered."""
        self._count = 0

    def add(self, error: EngineError) -> None:
        """Note an attempt that failed."""
        self._count += 1
        most = self._pool.limit.now + _FAILED if error.retryable else _REFUSED
        if self._count >= most:
            advice = (
                "run the same command again when the endpoint answers."
                if error.retryable
                else "look at what it is asked and what it says, by `toolbank preview RECIPE`, "
                "and change `model`, `max_tokens` or `parameters`."
            )
            self._pool.stop.fail(
                ToolbankError(
                    f"{self._count} attempts failed one after another, the last with: "
                    f"{error} The replies that came are kept; {advice}"
                )
            )
