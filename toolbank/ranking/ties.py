"""Which of two tools of the same score comes first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.uint32]


@dataclass(frozen=True)
class Ties:
    """An order of the tools for each request, as if drawn by lot.

    It follows from the request and the tool's name alone: whatever the order of the tools in a
    file, the same one of two that do alike comes first. Another request draws anew, so that no
    tool goes before another for all of them, as it would in the order of their names.

    `queries` [n] and `tools` [m] are hashes.
    """

    queries: Order
    tools: Order

    def __len__(self) -> int:
        return len(self.queries)

    def of(self, rows: slice) -> Ties:
        """Those of some of the requests."""
        return Ties(self.queries[rows], self.tools)

    def order(self, rows: slice = slice(None)) -> Order:
        """Of these requests and all tools [n, m]: of the same score, the least comes first."""
        return _mix(self.queries[rows, None] ^ self.tools)

    def order_in(self, row: int, tools: NDArray[np.int64]) -> Order:
        """As `order`, of one request and some tools [k], given by their positions."""
        return _mix(self.queries[row] ^ self.tools[tools])

    def order_of(self, tools: NDArray[np.int64]) -> Order:
        """As `order`, of each request's own tools [n, k], given by their positions."""
        return _mix(self.queries[:, None] ^ self.tools[tools])


def draw_ties(queries: Sequence[str], tools: tuple[str, ...]) -> Ties:
    """The order of tools, by their names, for each of these requests."""
    return Ties(hash_texts(queries), hash_texts(tools))


def hash_texts(texts: Iterable[str]) -> Order:
    """Hashes [n] of texts, by which lots are drawn."""
    digests = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        for text in texts
    )
    return np.frombuffer(b"".join(digests), "<u4")


def _mix(values: Order) -> Order:
    """Spread the bits; no two values become one (the end of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))
