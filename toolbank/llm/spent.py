"""What the calls of a stage came to, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbank.llm.pool import Pool


def describe_spent(pool: Pool) -> str:
    """The calls of a command, with the dollars of the stage over the run's folder if known."""
    said, dollars = pool.counts.summary(), pool.dollars
    if dollars is None:
        return said
    digits = 2 if dollars >= 0.1 or not dollars else 4
    estimated = ", estimated" if pool.is_estimated else ""
    return f"{said}; ${dollars:,.{digits}f} in all{estimated}"


def note_unpriced(pool: Pool, section: str) -> Iterator[str]:
    """That the cost is not known, where there is one."""
    counts = pool.counts
    if pool.dollars is None and counts.prompt_tokens + counts.completion_tokens:
        yield (
            f"cost unknown: no price of the model is known; set {section}.price, dollars a "
            "million tokens"
        )
