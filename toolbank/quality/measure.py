"""All figures of a bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.quality.agreement import Agreement, read_agreement
from toolbank.quality.coverage import Coverage, Sets, measure_coverage, measure_sets
from toolbank.quality.dispersion import Dispersion, measure_dispersion
from toolbank.quality.duplicates import Duplicates, measure_duplicates
from toolbank.quality.leaks import Leaks, measure_leaks
from toolbank.quality.openings import Openings, measure_openings
from toolbank.quality.overlap import Overlap, measure_overlap
from toolbank.quality.polish import Polish, measure_polish
from toolbank.quality.reading import Reading, measure_reading
from toolbank.quality.rows import make_asks, make_requests, make_tools
from toolbank.quality.texts import draw
from toolbank.quality.variety import Variety, measure_variety

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EMBEDDED = 2000
_DIGITS = 6


@dataclass(frozen=True)
class Quality:
    """The figures of a bank; a part is None where the bank has nothing to take it of.

    All are of the requests, but for `overlap`, which tells kinds of asks apart, too.
    """

    tools: int
    requests: int
    asks: int
    coverage: Coverage | None
    sets: Sets | None
    variety: Variety | None
    duplicates: Duplicates | None
    openings: Openings | None
    overlap: tuple[Overlap, ...]
    leaks: Leaks | None
    polish: Polish | None
    reading: Reading | None
    labels: Agreement | None
    dispersion: Dispersion | None = None

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON has them, by the names of the fields; fractions to six digits."""
        rounded: dict[str, Any] = _round(asdict(self))
        return rounded


def measure_quality(bank: Bank, seed: int) -> Quality:
    """All but the dispersion; the same for the same bank and seed, in whatever order it stands."""
    requests, tools = make_requests(bank), make_tools(bank)
    texts = requests["query"].to_list()
    return Quality(
        tools=len(bank.tools),
        requests=len(bank.queries),
        asks=len(bank.asks),
        coverage=measure_coverage(requests, tools),
        sets=measure_sets(requests),
        variety=measure_variety(texts, seed),
        duplicates=measure_duplicates(texts, seed),
        openings=measure_openings(requests),
        overlap=tuple(measure_overlap(requests, make_asks(bank), tools)),
        leaks=measure_leaks(requests, bank.tools),
        polish=measure_polish(requests),
        reading=measure_reading(texts),
        labels=read_agreement(bank),
    )


def add_dispersion(
    quality: Quality,
    bank: Bank,
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
    encoder: str,
    seed: int,
) -> Quality:
    """The same with the dispersion of up to 2,000 requests by what `embed` gives: unit vectors.

    Raises:
        InputError: as `embed` does.
    """
    texts = [query.query for query in bank.queries]
    drawn = [texts[place] for place in draw(texts, _EMBEDDED, seed)]
    found = measure_dispersion(drawn, embed(drawn), seed, encoder)
    return replace(quality, dispersion=found)


def _round(value: Any) -> Any:
    """As sums of several threads come in no fixed order, the last digits may differ."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _round(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_round(one) for one in value]
    return value
