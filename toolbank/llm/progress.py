"""The progress bar of calls to a model, and what the calls of a stage cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from toolbank.llm.pool import Pool

_SECONDS = 0.5
_FORMAT = "{desc} {n_fmt}/{total_fmt} {bar} ETA {remaining}{postfix}"


@contextmanager
def show_progress(
    what: str,
    count: Callable[[], tuple[int, int]],
    pool: Pool,
    total: int | None,
) -> Iterator[None]:
    """Show a progress bar of the calls, twice a second, until the block ends.

    There is none off a terminal, or for a total of 1. `count` returns how much of `what`, such
    as "queries", is done, and how much of that is not accepted.
    """
    with tqdm(
        desc=what,
        total=total,
        bar_format=_FORMAT,
        mininterval=0,
        dynamic_ncols=True,
        leave=False,
        disable=total == 1 or None,
    ) as bar:
        if bar.disable:
            yield
            return
        loop = asyncio.get_running_loop()
        timer = None

        def update() -> None:
            nonlocal timer
            done, lost = count()
            seconds = bar.format_dict["elapsed"]
            details = _list_details(pool, lost, seconds)
            bar.set_postfix_str(", ".join(details), refresh=False)
            bar.update(done - bar.n)
            bar.refresh()
            timer = loop.call_later(_SECONDS, update)

        update()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


def _list_details(pool: Pool, lost: int, seconds: float) -> Iterator[str]:
    """List what follows the bar, the most important first: a narrow terminal cuts the end."""
    counts = pool.counts
    if hold := "finishing" if pool.stop else pool.describe_hold():
        yield hold
    yield f"{lost:,} not accepted"
    yield f"{pool.in_flight}/{pool.limit.now} in flight"
    yield f"{counts.asked / max(seconds, 1):.1f} replies/s"
    if pool.dollars is not None:
        yield f"${pool.dollars:,.2f}{' estimated' if pool.is_estimated else ''}"
    sent, received = counts.prompt_tokens, counts.completion_tokens
    if sent or received:
        estimated = " estimated" if counts.estimated else ""
        yield f"{_short(sent)} tokens in, {_short(received)} out{estimated}"


def _short(number: int) -> str:
    return str(tqdm.format_sizeof(number)) if number >= 1000 else str(number)


def describe_spent(pool: Pool) -> str:
    """Summarize the calls of a command, with the dollars spent in the run folder if known."""
    summary, dollars = pool.counts.summary(), pool.dollars
    if dollars is None:
        return summary
    digits = 2 if dollars >= 0.1 or not dollars else 4
    estimated = ", estimated" if pool.is_estimated else ""
    return f"{summary}; ${dollars:,.{digits}f} in all{estimated}"


def note_unpriced(pool: Pool, section: str) -> Iterator[str]:
    """Note that calls cost something, and that the price is unknown."""
    counts = pool.counts
    if pool.dollars is None and counts.prompt_tokens + counts.completion_tokens:
        yield (
            f"cost unknown: the price of the model is not known. Set {section}.price, in dollars "
            "per million tokens"
        )
