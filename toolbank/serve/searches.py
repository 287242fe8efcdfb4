"""Searches of a server, however they are asked for: bounded, counted and logged."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from toolbank.packed.finder import PackedFinder
from toolbank.serve.answers import Refusal, describe_answer
from toolbank.serve.asked import Asked
from toolbank.serve.feedback import FeedbackLog
from toolbank.serve.metrics import Metrics
from toolbank.serve.pool import Pool
from toolbank.serve.shelf import Shelf
from toolbank.system.errors import InputError

T = TypeVar("T")


class Searches:
    """Searches the finders of a shelf; over HTTP and MCP by the same threads and counts."""

    def __init__(self, shelf: Shelf, log: FeedbackLog | None = None) -> None:
        self.shelf, self.log = shelf, log
        self.pool, self.metrics = Pool(), Metrics()

    async def run(
        self, name: str, asked: Asked, write: Callable[[dict[str, Any]], T]
    ) -> list[T]:
        """Search a finder for each request; what `write` makes of the answers, on a thread.

        Raises:
            Refusal: the finder can't be asked so, too many wait, or it took too long.
        """
        began = time.perf_counter()
        finder = self.shelf[name]
        results = await self.pool.run_each(
            [
                partial(self._search, name, finder, asked, query, write)
                for query in asked.queries
            ]
        )
        self.metrics.nothing[name] += sum(is_unfit for _, is_unfit in results)
        self.metrics.searched(name, time.perf_counter() - began)
        return [written for written, _ in results]

    def _search(
        self,
        name: str,
        finder: PackedFinder,
        asked: Asked,
        query: str,
        write: Callable[[dict[str, Any]], T],
    ) -> tuple[T, bool]:
        try:
            answer = finder.answer(
                query, asked.k, asked.min_score, asked.wanted, asked.retriever
            )
        except InputError as error:
            raise Refusal(400, str(error)) from error
        content = describe_answer(answer)
        if self.log is not None:
            content["id"] = self.log.searched(name, query, answer)
        return write(content), answer.fits is False or not answer.hits
