"""The progress line of generation."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from toolbank.generate.fold import Fold
from toolbank.llm.ask import Asker

_SECONDS = 0.5
# The rate of replies is that of the last 10 s.
_TICKS = 20


@contextmanager
def show_progress(fold: Fold, asker: Asker, total: int | None) -> Iterator[None]:
    """Show accepted queries and what the calls come to, twice a second; quiet off a terminal."""
    with tqdm(
        total=total, desc="queries", unit="query", miniters=1, disable=None
    ) as bar:
        ticker = _Ticker(bar, fold, asker)
        if not bar.disable:
            ticker.tick()
        try:
            yield
        finally:
            ticker.end()


class _Ticker:
    def __init__(self, bar: tqdm[Any], fold: Fold, asker: Asker) -> None:
        self._bar = bar
        self._fold = fold
        self._asker = asker
        self._asked: deque[int] = deque(maxlen=_TICKS + 1)
        self._timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        self._show()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self.tick)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._show()

    def _show(self) -> None:
        self._asked.append(self._asker.counts.asked)
        self._bar.set_postfix_str(self._tell(), refresh=False)
        self._bar.update(self._fold.accepted - self._bar.n)
        self._bar.refresh()

    def _tell(self) -> str:
        fold, asker, counts = self._fold, self._asker, self._asker.counts
        seconds = _SECONDS * (len(self._asked) - 1)
        rate = (self._asked[-1] - self._asked[0]) / seconds if seconds else 0
        tokens = f"{_short(counts.prompt_tokens)}+{_short(counts.completion_tokens)}"
        dollars = asker.dollars
        told = [
            f"{fold.attempts - fold.accepted:,} not accepted",
            f"{rate:.1f} replies/s",
            f"{tokens} tokens",
            "" if dollars is None else f"${dollars:,.2f}",
            f"{asker.gate.in_flight}/{asker.limit.now} in flight",
        ]
        return ", ".join(filter(None, told))


def _short(number: int) -> str:
    return str(tqdm.format_sizeof(number)) if number >= 1000 else str(number)
