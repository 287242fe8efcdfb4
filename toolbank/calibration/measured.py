"""How a retriever's calibration does on queries that neither has seen: a line of calibration.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from toolbank.bank.bank import Bank
from toolbank.calibration.fit import FIRST, LOST, fit_calibration, mark_right
from toolbank.calibration.reliability import measure_reliability
from toolbank.calibration.signals import DEPTH
from toolbank.config.checked import read_checked
from toolbank.retrievers.base import Retriever
from toolbank.system.files import write_json

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Calibrated:
    """What a retriever's probabilities are worth on the test queries.

    Of their first hits, by bins of equal width, `said` is the mean probability, `happened` the
    share that was needed, `counts` how many there are; bins without any are left out. `error` is
    the expected calibration error. Below `threshold` nothing fits; it was chosen by `n_validation`
    validation queries to refuse a share `lost` of further ones that are served at most, and refuses
    `refused` of the `n_served` test queries that are: those with a right tool among the first five.
    """

    retriever: str
    n_validation: _Count
    threshold: _Share
    lost: _Share
    n: _Count
    n_served: _Count
    refused: _Count
    error: _Share
    said: tuple[_Share, ...]
    happened: tuple[_Share, ...]
    counts: tuple[_Count, ...]

    def __post_init__(self) -> None:
        if not len(self.said) == len(self.happened) == len(self.counts):
            raise ValueError("said, happened and counts are as long as each other")


def measure_calibration(retriever: Retriever, bank: Bank) -> Calibrated | None:
    """Calibrate a retriever on the validation queries, and measure that on the test queries.

    Returns:
        None where `fit_calibration` can't learn what scores mean, or there are no test queries.
    """
    queries = bank.split("test")
    calibration = fit_calibration(retriever, bank) if queries else None
    if calibration is None:
        return None
    texts = [query.query for query in queries]
    hits = retriever.search(texts, DEPTH)
    right = mark_right(bank, queries, hits[0])
    chances = calibration.chances(retriever, texts, hits)
    real = hits[0] >= 0
    bins = measure_reliability(chances[real], right[real])
    served = right[:, :FIRST].any(axis=1)
    best = chances.max(axis=1, initial=0)
    threshold = float(calibration.threshold)
    return Calibrated(
        retriever=retriever.name,
        n_validation=len(bank.split("validation")),
        threshold=threshold,
        lost=LOST,
        n=len(queries),
        n_served=int(served.sum()),
        refused=int(np.sum(served & (best < threshold))),
        error=bins.error,
        said=tuple(bins.said.tolist()),
        happened=tuple(bins.happened.tolist()),
        counts=tuple(bins.counts.tolist()),
    )


def write_calibrated(path: Path, measured: Sequence[Calibrated]) -> None:
    """Write a calibration.json, atomically."""
    write_json(path, [asdict(one) for one in measured])


def read_calibrated(path: Path) -> list[Calibrated]:
    """Read a calibration.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[Calibrated])
