"""Fit a calibration to requests that a retriever was not trained on, and measure it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.bank.split import find_family
from toolbank.bank.twins import find_first_twins, group_siblings
from toolbank.config.explain import read_checked
from toolbank.retrievers.base import Retriever
from toolbank.retrievers.calibration import (
    DEPTH,
    Calibration,
    describe_hits,
    embed_requests,
    read_signals,
)
from toolbank.retrievers.calibration_requests import LEAST, CalibrationRequests
from toolbank.retrievers.unseen import regress
from toolbank.system.files import read_json, write_json

_FILE = "background.jsonl"


@dataclass(frozen=True)
class Foreign:
    """A request for a tool of some domain."""

    domain: str
    tool: str
    query: str


def find_foreign(tools: Collection[str]) -> tuple[Foreign, ...]:
    """The requests that come along, less those of domains of which a tool is among these."""
    known = set(tools)
    every = _read()
    shared = {one.domain for one in every if one.tool in known}
    return tuple(one for one in every if one.domain not in shared)


@cache
def _read() -> tuple[Foreign, ...]:
    text = (files("toolbank.retrievers") / _FILE).read_text(encoding="utf-8")
    return tuple(Foreign(**json.loads(line)) for line in text.splitlines())


LOST = 0.02
"""The share of requests with a right tool among their first hits that may be below the threshold."""
EVEN = 0.5
"""The highest threshold: an answer is not marked where its best hit is likelier needed than not."""
FIRST = 5
_MOST_NEAR = 2_000
_ANY = -1e9
_FOLDS = 5
_LARGEST, _MOST = 0.25, 50
"""Of the bank's tools, the share that a family may have, and how many: hits that deep say little."""
_PRIOR = 0.1
"""The weight of "no signal means anything", as that of one in ten examples."""


def fit_calibration(
    retriever: Retriever,
    bank: Bank,
    queries: Sequence[Query],
    seed: int = 0,
    packed_from: Retriever | None = None,
) -> Calibration | None:
    """Fit a retriever's calibration to labelled `queries`, those of `choose_requests`.

    Their labels are tools of the bank. That anything fits is learnt from three kinds of requests:
    the queries whose first hits have a right tool; the same without the families of their own tools
    among the hits, as if the module or server that they ask for were not in the catalogue; and
    requests of other domains. How likely a hit is needed is learnt from the queries as they are. Of
    further requests with a right tool among the first hits a share of `LOST` at most is below the
    threshold, as far as can be expected: it is chosen by what fits to the other queries say of each
    (see `choose_threshold`), and `EVEN` at most.

    Of a packed retriever, `packed_from` is the one that it was made of: where requests of other
    domains lie is told by its encoder, which is faster, and need not be asked for each precision.

    Returns:
        None where there are fewer than 20 queries, or none of them has a right hit.
    """
    if len(queries) < LEAST:
        return None
    texts = [query.query for query in queries]
    absent = find_families(bank, queries)
    depth = DEPTH + max(map(len, absent))
    hits = retriever.search(texts, depth)
    right = mark_right(bank, queries, hits[0])
    served: NDArray[np.bool_] = np.asarray(right[:, :FIRST].any(axis=1))
    if not served.any():
        return None
    foreign = _draw_foreign(bank, len(texts), seed)
    signals = [
        read_signals(retriever, texts, hits),
        read_signals(retriever, texts, hits, absent),
        read_signals(retriever, foreign, retriever.search(foreign, DEPTH)),
    ]
    vectors = [embed_requests(retriever, asked) for asked in (texts, texts, foreign)]
    made = Calibration()
    made.threshold = np.array(0.0)
    every = np.concatenate(signals)
    made.centre = np.asarray(every.mean(axis=0))
    made.spread = np.maximum(every.std(axis=0), 1e-6)
    found = hits[1][:, 0][hits[0][:, 0] >= 0]
    made.scale = np.array(max(float(found.std()), 1e-6))
    made.direction = _find_direction(packed_from or retriever, bank, seed)
    columns = np.column_stack(
        [(every - made.centre) / made.spread, np.concatenate(vectors) @ made.direction]
    )
    fits = np.concatenate([served, np.zeros(len(every) - len(served), np.bool_)])
    made.fits = regress(columns, fits, *_flat(columns.shape[1] + 1), least_slope=_ANY)
    odds = made.request_odds(signals[0], vectors[0])
    features = describe_hits(
        (hits[0][:, :DEPTH], hits[1][:, :DEPTH]), odds, float(made.scale)
    )
    real = hits[0][:, :DEPTH] >= 0
    made.needed = regress(
        features[real], right[:, :DEPTH][real], *_flat(4), least_slope=0
    )
    # A query and the same without its tools are one example.
    examples = np.concatenate([np.arange(len(part)) for part in signals])
    unseen = _cross_fit(columns, fits, examples)[: len(served)][served]
    lowest = made.best_chance(np.array(choose_threshold(unseen)))
    made.threshold = np.minimum(lowest, EVEN)
    return made


def choose_threshold(best: NDArray[np.floating], lost: float = LOST) -> float:
    """The highest threshold that is expected to refuse a share `lost` of further scores at most.

    Conformal risk control (arXiv 2208.02814, eq. 4) by the scores [n] of requests that are served:
    a threshold that j of them are below is expected to refuse (j + 1) / (n + 1). Of fewer than
    1 / `lost` it is the lowest, and more may be lost: 1 / (n + 1).
    """
    place = int(lost * (len(best) + 1)) - 1
    return float(np.sort(best)[max(place, 0)])


def _cross_fit(
    columns: NDArray[np.float64], fits: NDArray[np.bool_], examples: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-odds [n] that anything fits, of each example by a regression on the other folds.

    Those of the same of `examples` [n] are in the same fold.
    """
    odds = np.zeros(len(columns))
    for fold in range(_FOLDS):
        own = examples % _FOLDS == fold
        found = regress(
            columns[~own], fits[~own], *_flat(columns.shape[1] + 1), least_slope=_ANY
        )
        odds[own] = columns[own] @ found[:-1] + found[-1]
    return odds


def find_own(bank: Bank, queries: Sequence[Query]) -> list[NDArray[np.int64]]:
    """The positions of each query's tools, with all that would serve in their place."""
    first = np.array(find_first_twins(bank.tools))
    sibling = np.zeros(len(bank.tools), np.int64)
    for number, group in enumerate(group_siblings(bank.tools)):
        sibling[[bank.index[tool.name] for tool in group]] = number
    found = []
    for query in queries:
        named = (*query.tools, *bank.alternatives(query))
        # An alternative may be a tool that a refresh has removed.
        places = [bank.index[name] for name in named if name in bank.index]
        same = np.isin(first, first[places]) | np.isin(sibling, sibling[places])
        found.append(np.flatnonzero(same))
    return found


def find_families(bank: Bank, queries: Sequence[Query]) -> list[NDArray[np.int64]]:
    """As `find_own`, with all tools of the same families, but for large ones.

    Without the module that most functions are of nothing would be left to find.
    """
    families = np.array([find_family(tool) for tool in bank.tools])
    _, members, sizes = np.unique(families, return_inverse=True, return_counts=True)
    is_small = sizes <= min(_LARGEST * len(families), _MOST)
    found = []
    for query, own in zip(queries, find_own(bank, queries), strict=True):
        named = np.unique(
            members[[bank.index[n] for n in query.tools if n in bank.index]]
        )
        same = np.isin(members, named[is_small[named]])
        found.append(np.union1d(own, np.flatnonzero(same)))
    return found


def mark_right(
    bank: Bank, queries: Sequence[Query], indices: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which hits [n, k], by their `indices`, are their query's own tools."""
    own = [[bank.index[n] for n in q.tools if n in bank.index] for q in queries]
    return np.stack([np.isin(row, one) for row, one in zip(indices, own, strict=True)])


def _draw_foreign(bank: Bank, n: int, seed: int) -> list[str]:
    """As many requests of other domains as there are of this, each domain in turn."""
    by_domain: dict[str, list[str]] = {}
    for one in find_foreign(bank.tool_names):
        by_domain.setdefault(one.domain, []).append(one.query)
    draw = Random(seed)
    drawn = []
    for _, requests in sorted(by_domain.items()):
        drawn += draw.sample(requests, min(len(requests), -(-n // len(by_domain))))
    return drawn


def _find_direction(retriever: Retriever, bank: Bank, seed: int) -> NDArray[np.float64]:
    """The direction [d] from requests of other domains to those of this one."""
    asked = sorted({query.query for query in bank.train_queries})
    asked = Random(seed).sample(asked, min(len(asked), _MOST_NEAR))
    foreign = [one.query for one in find_foreign(bank.tool_names)]
    near = embed_requests(retriever, asked)
    if not near.shape[1] or not len(near) or not foreign:
        return np.zeros(near.shape[1])
    from sklearn.linear_model import LogisticRegression

    vectors = np.concatenate([near, embed_requests(retriever, foreign)])
    ours = np.arange(len(vectors)) < len(near)
    fitted = LogisticRegression(class_weight="balanced", max_iter=1_000).fit(
        vectors, ours
    )
    return np.asarray(fitted.coef_[0], np.float64)


def _flat(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What coefficients are drawn to, and how strongly; the intercept is all but free."""
    weight = np.full(n, _PRIOR * 10)
    weight[-1] = 1e-3
    return np.zeros(n), weight


_BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Probabilities by bins of equal width [n_bins]; those of empty bins are left out.

    `said` is the mean probability, `happened` the share of what held, `counts` how many there are.
    """

    said: NDArray[np.float64]
    happened: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance, by counts (arXiv 1706.04599, eq. 3)."""
        if not len(self.counts):
            return 0.0
        return float(np.average(np.abs(self.said - self.happened), weights=self.counts))


def measure_reliability(
    chances: NDArray[np.floating], holds: NDArray[np.bool_], bins: int = _BINS
) -> Reliability:
    """Hold probabilities [n], from 0 to 1, against what held [n]."""
    numbers = np.minimum((chances * bins).astype(np.int64), bins - 1)
    counts = np.bincount(numbers, minlength=bins)
    filled = counts > 0
    said = np.bincount(numbers, chances, bins)[filled] / counts[filled]
    happened = np.bincount(numbers, holds, bins)[filled] / counts[filled]
    return Reliability(said, happened, counts[filled])


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
