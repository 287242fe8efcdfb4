"""The progress line of calls to a model, and what the calls of a stage cost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from toolbank.llm.pool import Pool

_SECONDS = 0.5
# The rate of replies is that of the last 10 s, and the time left goes by the last 60 s.
_TICKS_OF_RATE = 20
_TICKS = 120
_TICKS_TO_GUESS = 6
_GAP = "  "
_SHORTEST_BAR, _LONGEST_BAR = 10, 30


@dataclass(frozen=True)
class Part:
    """A piece of the line, in a long and a short form; where room is scarce, a low rank stays."""

    rank: int
    long: str
    short: str = ""


@contextmanager
def show_progress(
    what: str,
    count: Callable[[], tuple[int, int]],
    pool: Pool,
    total: int | None,
) -> Iterator[None]:
    """Show how far the work is and what the calls come to, twice a second.

    It is quiet off a terminal, and where there is only one thing to do.

    `count` gives how much of `what`, such as "queries", is done of the `total`, if that is known,
    and how much was not accepted.

    The line goes when the work ends: what it said is in the message that follows.
    """
    with tqdm(
        bar_format="{desc}",
        dynamic_ncols=True,
        leave=False,
        disable=total == 1 or None,
    ) as bar:
        ticker = _Ticker(bar, what, count, pool, total)
        if not bar.disable:
            ticker.tick()
        try:
            yield
        finally:
            ticker.end()


def compose(parts: Sequence[Part], width: int, share: float | None = None) -> str:
    """As many parts as fit the width, in their order; the shorter forms before fewer parts.

    Where there is room besides, a bar shows the share.
    """
    ranked = sorted(parts, key=lambda part: part.rank)
    for count in range(len(parts), 0, -1):
        for longs in range(count, -1, -1):
            line = _GAP.join(
                part.long if part in ranked[:longs] or not part.short else part.short
                for part in parts
                if part in ranked[:count]
            )
            room = width - len(line) - len(_GAP) - len("[]")
            if share is not None and room >= _SHORTEST_BAR and longs == len(parts):
                return f"{line}{_GAP}{_draw(share, min(room, _LONGEST_BAR))}"
            if len(line) <= width:
                return line
    return ""


class _Ticker:
    def __init__(
        self,
        bar: tqdm[Any],
        what: str,
        count: Callable[[], tuple[int, int]],
        pool: Pool,
        total: int | None,
    ) -> None:
        self._bar = bar
        self._what = what
        self._count = count
        self._pool = pool
        self._total = total
        # Replies and what is done at each tick since the last that came from the journal.
        self._seen: deque[tuple[int, int]] = deque(maxlen=_TICKS + 1)
        self._replayed = 0
        self._timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        self._show()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self.tick)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _show(self) -> None:
        counts, (done, lost) = self._pool.counts, self._count()
        if counts.from_journal != self._replayed:
            self._replayed = counts.from_journal
            self._seen.clear()
        self._seen.append((counts.asked, done))
        columns = self._bar.format_dict["ncols"] or 80
        share = min(1.0, done / self._total) if self._total else None
        # In the last columns the cursor stands, and the terminal writes ^C.
        line = compose(list(self._parts(share, done, lost)), columns - 3, share)
        self._bar.set_description_str(line)

    def _parts(self, share: float | None, done: int, lost: int) -> Iterator[Part]:
        pool, counts = self._pool, self._pool.counts
        of_all = f"/{self._total:,}" if self._total else ""
        yield Part(0, f"{self._what} {done:,}{of_all}")
        if share is not None:
            yield Part(7, f"{100 * share:.0f} %")
        held = "finishing" if pool.stop else pool.describe_hold()
        if held:
            yield Part(1, held)
        elif seconds := self._seconds_left(done):
            yield Part(1, f"ETA {tqdm.format_interval(seconds)}")
        yield Part(2, f"{lost:,} not accepted")
        if not held:
            rate = self._rate(0, _TICKS_OF_RATE)
            yield Part(4, f"{rate:.1f} replies/s", f"{rate:.1f}/s")
        sent, got = counts.prompt_tokens, counts.completion_tokens
        if sent or got:
            said = f"{_short(sent)} tokens in, {_short(got)} out"
            estimated = ", estimated" if counts.estimated else ""
            yield Part(5, f"{said}{estimated}", f"{_short(sent + got)} tokens")
        if pool.dollars is not None:
            estimated = " estimated" if pool.is_estimated else ""
            yield Part(3, f"${pool.dollars:,.2f}{estimated}")
        yield Part(6, f"{pool.in_flight}/{pool.limit.now} in flight")

    def _seconds_left(self, done: int) -> float | None:
        rate = self._rate(1, _TICKS)
        if not (rate and self._total) or len(self._seen) <= _TICKS_TO_GUESS:
            return None
        return max(0, self._total - done) / rate

    def _rate(self, column: int, ticks: int) -> float:
        """How much more of replies (0) or what is done (1) a second there was in the last ticks."""
        past = self._seen[max(0, len(self._seen) - 1 - ticks)]
        seconds = _SECONDS * min(ticks, len(self._seen) - 1)
        return (self._seen[-1][column] - past[column]) / seconds if seconds else 0.0


def _draw(share: float, width: int) -> str:
    return f"[{'#' * int(share * width):.<{width}}]"


def _short(number: int) -> str:
    return str(tqdm.format_sizeof(number)) if number >= 1000 else str(number)


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
