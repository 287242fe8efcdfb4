"""How requests begin."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from toolbank.quality.texts import words_of

_OPENING_WORDS = 3
_COMMONEST = 10


@dataclass(frozen=True)
class Openings:
    """The first three words of requests.

    `share` is that of requests with one of the ten commonest openings, which are in `commonest`
    with the share of each.
    """

    share: float
    commonest: dict[str, float]


def measure_openings(requests: pl.DataFrame) -> Openings | None:
    """The openings; None where there is no request."""
    if requests.is_empty():
        return None
    first = words_of(pl.col("query")).list.head(_OPENING_WORDS).list.join(" ")
    found = (
        requests.group_by(opening=first)
        .len()
        .sort(["len", "opening"], descending=[True, False])
        .head(_COMMONEST)
        .select("opening", pl.col("len") / requests.height)
    )
    commonest = {opening: float(share) for opening, share in found.iter_rows()}
    return Openings(min(1.0, sum(commonest.values())), commonest)
