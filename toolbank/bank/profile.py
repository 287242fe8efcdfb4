"""What a bank knows of each request: how many tools fit it, how it is worded, how hard it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from toolbank.bank.records import Record

Fits = Literal["1", "2-3", "4+"]
Wording = Literal["tool-words", "paraphrase", "outcome"]
Difficulty = Literal["easy", "medium", "hard"]

AXES: Mapping[str, tuple[str, ...]] = {
    "fits": get_args(Fits),
    "wording": get_args(Wording),
    "difficulty": get_args(Difficulty),
}
"""The classes of requests, by column."""


class QueryProfile(Record):
    """The classes of a request, and the measurements that they follow from.

    `key` is a hash of the request and its labels; a row with another key is out of date. `labels`
    says whose labels count. `n_fits` is the number of tools that are needed or an alternative.
    `overlap` and `named` are those of `requests.profile.classes.measure_wording`. Ranks are those of the
    needed tools, in their order, from 1; 0 beyond the ranks that were searched. Without an encoder
    there are no `encoder_ranks`. `wording` is None if the bank has none of the needed tools.
    """

    id: str
    key: str
    labels: Literal["verified", "first"]
    n_fits: int
    fits: Fits
    overlap: float
    named: float
    wording: Wording | None
    bm25_ranks: tuple[int, ...]
    encoder_ranks: tuple[int, ...] = ()
    difficulty: Difficulty

    def classes(self) -> dict[str, str | None]:
        """Return the class of each axis."""
        return {axis: getattr(self, axis) for axis in AXES}


def describe_classes(classes: Iterable[tuple[str, str | None]]) -> list[str]:
    """Describe how many requests are of each class, such as "wording: tool-words (15 %), ...".

    `classes` are the axis and the class of each request; None is not counted.
    """
    counts = Counter(classes)
    return [
        f"{axis}: {', '.join(f'{one} ({100 * counts[axis, one] / n:.0f} %)' for one in names)}"
        for axis, names in AXES.items()
        if (n := sum(counts[axis, one] for one in names))
    ]
