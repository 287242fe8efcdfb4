"""How many queries of each number of tools a bank is to have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

# More than attempts are looked at between the first that is open and the next.
_AT_HAND = 10_000


class Quotas:
    """What a bank is to have of each number of tools, and which number an attempt asks for.

    `number_of` gives the number of an attempt, or None past the last. A number without a share has
    no bound of its own.
    """

    def __init__(
        self,
        shares: Mapping[int, float],
        wanted: int,
        number_of: Callable[[int], int | None],
    ) -> None:
        self.wanted = share_out(shares, wanted)
        self.number_of = lru_cache(_AT_HAND)(number_of)

    def has_room(self, number: int, queries: int) -> bool:
        """Whether so many queries of a number of tools are fewer than are to be."""
        return queries < self.wanted.get(number, math.inf)


def share_out(shares: Mapping[int, float], wanted: int) -> dict[int, int]:
    """So many queries by shares, which count by their sum: whole numbers, largest remainders up."""
    total = sum(shares.values())
    exact = {number: wanted * shares[number] / total for number in sorted(shares)}
    counts = {number: math.floor(part) for number, part in exact.items()}
    left = wanted - sum(counts.values())
    for number in sorted(exact, key=lambda n: (counts[n] - exact[n], n))[:left]:
        counts[number] += 1
    return counts
