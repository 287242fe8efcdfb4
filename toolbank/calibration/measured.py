"""What retrievers are calibrated on, and how well: calibration.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from toolbank.bank.bank import Bank
from toolbank.calibration.fit import FIRST, LOST, fit_calibration, mark_right
from toolbank.calibration.reliability import measure_reliability
from toolbank.calibration.requests import CalibrationRequests
from toolbank.calibration.signals import DEPTH
from toolbank.config.explain import read_checked
from toolbank.retrievers.base import Retriever
from toolbank.system.files import read_json, write_json

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Calibrated:
    """What a retriever's probabilities are worth on the test queries.

    Of their first hits, by bins of equal width, `said` is the mean probability, `happened` the
    share that was needed, `counts` how many there are; bins without any are left out. `error` is
    the expected calibration error. An answer whose best hit is below `threshold` is marked as not
    fitting. The threshold was chosen by `n_requests` requests, so that of further ones that are served a share `lost` at
    most is marked so; of the `n_served` test queries that are, those with a right tool among the
    first five, it is `refused`.
    """

    retriever: str
    n_requests: _Count
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


@dataclass(frozen=True)
class CalibrationRecord:
    """What the retrievers of a run are calibrated on, but for the queries, and how well."""

    requests: CalibrationRequests = field(default_factory=CalibrationRequests)
    retrievers: tuple[Calibrated, ...] = ()


def measure_calibration(
    retriever: Retriever, bank: Bank, requests: CalibrationRequests
) -> Calibrated | None:
    """Calibrate a retriever on requests, and measure that on the test queries.

    Returns:
        None where `fit_calibration` can't learn what scores mean, or there are no test queries.
    """
    queries = bank.split("test")
    calibration = None
    if queries:
        calibration = fit_calibration(retriever, bank, requests.queries)
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
        n_requests=len(requests.queries),
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


def write_calibration(
    path: Path, requests: CalibrationRequests, measured: Sequence[Calibrated]
) -> None:
    """Write a calibration.json, atomically."""
    origin = asdict(requests)
    del origin["queries"]
    content = {"requests": origin, "retrievers": [asdict(one) for one in measured]}
    write_json(path, content)


def read_calibration_record(path: Path) -> CalibrationRecord:
    """Read a calibration.json.

    One of version 0.7.0, a list, doesn't say what the retrievers were calibrated on.

    Raises:
        InputError: the file is missing or damaged.
    """
    if isinstance(read_json(path), list):
        reason = (
            "an earlier version of toolbank evaluated the run, and did not check whether its "
            "validation requests nearly repeat train requests"
        )
        return CalibrationRecord(CalibrationRequests(reason=reason))
    return read_checked(path, CalibrationRecord)
