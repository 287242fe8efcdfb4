"""Fit a calibration to requests that a retriever was not trained on, and measure it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, find_first_twins, group_siblings
from toolbank.bank.split import find_family
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
from toolbank.system.files import write_json

_FILE = "background.jsonl"


@dataclass(frozen=True)
class ForeignRequest:
    """A bundled request for a tool of some domain."""

    domain: str
    tool: str
    query: str


def find_foreign_requests(tools: Collection[str]) -> tuple[ForeignRequest, ...]:
    """Return the bundled requests of the domains that none of these tools is of."""
    known = set(tools)
    every = _read_bundled()
    shared = {one.domain for one in every if one.tool in known}
    return tuple(one for one in every if one.domain not in shared)


@cache
def _read_bundled() -> tuple[ForeignRequest, ...]:
    text = (files("toolbank.retrievers") / _FILE).read_text(encoding="utf-8")
    return tuple(ForeignRequest(**json.loads(line)) for line in text.splitlines())


LOST = 0.02
"""The share of served requests, with a right tool in the top 5, that may be below the threshold."""
EVEN = 0.5
"""The highest threshold: no answer is marked whose best hit is more likely needed than not."""
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
    missing: Sequence[str] = (),
) -> Calibration | None:
    """Fit a retriever's calibration to labelled `queries`, those of `choose_requests`.

    Their labels are tools of the bank. Whether anything fits is learned from four kinds of
    requests: the queries with a right tool in the top 5; the same queries without the families of
    their tools among the hits, as if the requested module or server were not in the catalogue;
    requests of other domains; and `missing`, texts near the bank's tools that none of them fits.
    How likely a hit is needed is learned from the queries alone. The
    threshold is chosen by cross-fitted log-odds (see `choose_threshold`) and is at most `EVEN`, so
    that an expected share of at most `LOST` of further served requests is below it.

    For a packed retriever, `packed_from` is the retriever that it was made of. Its encoder is
    faster, and the direction of other domains is the same for each precision.

    Returns:
        None if there are fewer than 20 queries, or none of them has a right hit.
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
    unserved = [_draw_foreign(bank, len(texts), seed), [*missing]]
    signals = [
        read_signals(retriever, texts, hits),
        read_signals(retriever, texts, hits, absent),
    ]
    vectors = [embed_requests(retriever, texts)] * 2
    for others in filter(None, unserved):
        found = retriever.search(others, DEPTH)
        signals.append(read_signals(retriever, others, found))
        vectors.append(embed_requests(retriever, others))
    made = Calibration()
    every = np.concatenate(signals)
    made.centre = np.asarray(every.mean(axis=0))
    made.spread = np.maximum(every.std(axis=0), 1e-6)
    best = hits[1][:, 0][hits[0][:, 0] >= 0]
    made.scale = np.array(max(float(best.std()), 1e-6))
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
    # A query and the same query without its tools are one example.
    examples = np.concatenate([np.arange(len(part)) for part in signals])
    unseen = _cross_fit(columns, fits, examples)[: len(served)][served]
    lowest = made.best_chance(np.array(choose_threshold(unseen)))
    made.threshold = np.minimum(lowest, EVEN)
    return made


def choose_threshold(best: NDArray[np.floating], lost: float = LOST) -> float:
    """Return the highest threshold that is expected to refuse a share of at most `lost`.

    Conformal risk control (arXiv 2208.02814, eq. 4) on the scores [n] of served requests: a
    threshold with j scores below it is expected to refuse (j + 1) / (n + 1). With fewer than
    1 / `lost` scores, the lowest score is the threshold, and 1 / (n + 1) may be lost.
    """
    place = int(lost * (len(best) + 1)) - 1
    return float(np.sort(best)[max(place, 0)])


def _cross_fit(
    columns: NDArray[np.float64], fits: NDArray[np.bool_], examples: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-odds [n] that anything fits, each by a regression on the other folds.

    Rows with the same number in `examples` [n] are in the same fold.
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
    """Return the positions of each query's tools, their alternatives, twins and siblings."""
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
    """Return the positions of `find_own` and of all tools of the same families.

    Large families are skipped: without them, nothing would be left to find.
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
    """Mark which hits [n, k], given by their `indices`, are tools of their query."""
    own = [[bank.index[n] for n in q.tools if n in bank.index] for q in queries]
    return np.stack([np.isin(row, one) for row, one in zip(indices, own, strict=True)])


def _draw_foreign(bank: Bank, n: int, seed: int) -> list[str]:
    """Draw about n requests of other domains, equally many of each."""
    by_domain: dict[str, list[str]] = {}
    for one in find_foreign_requests(bank.tool_names):
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
    foreign = [one.query for one in find_foreign_requests(bank.tool_names)]
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
    """Prior and precisions of n coefficients; the intercept is nearly free."""
    weight = np.full(n, _PRIOR * 10)
    weight[-1] = 1e-3
    return np.zeros(n), weight


_BINS = 10


def measure_reliability(
    chances: NDArray[np.floating], holds: NDArray[np.bool_], bins: int = _BINS
) -> dict[str, Any]:
    """Compare probabilities [n], from 0 to 1, with what was observed [n].

    Returns:
        For the bins of equal width that are not empty, `said`, the mean probability, `happened`,
        the observed share, and `counts`. `error` is the expected calibration error: the weighted
        mean distance of these (arXiv 1706.04599, eq. 3).
    """
    numbers = np.minimum((chances * bins).astype(np.int64), bins - 1)
    counts = np.bincount(numbers, minlength=bins)
    filled = counts > 0
    counts = counts[filled]
    said = np.bincount(numbers, chances, bins)[filled] / counts
    happened = np.bincount(numbers, holds, bins)[filled] / counts
    apart = np.abs(said - happened)
    return {
        "error": float(np.average(apart, weights=counts)) if len(counts) else 0.0,
        "said": tuple(said.tolist()),
        "happened": tuple(happened.tolist()),
        "counts": tuple(counts.tolist()),
    }


@dataclass(frozen=True)
class CalibrationQuality:
    """How good a retriever's probabilities are on the test queries.

    `said`, `happened`, `counts` and `error` are those of `measure_reliability`, of the top 10 hits. An answer
    whose best hit is below `threshold` is marked as not fitting. The threshold was chosen on
    `n_requests` requests, so that at most a share `lost` of further served requests is marked. Of
    the `n` test queries, `n_served` have a right tool in the top 5, and `refused` of these are
    marked.
    """

    retriever: str
    n_requests: int
    threshold: float
    lost: float
    n: int
    n_served: int
    refused: int
    error: float
    said: tuple[float, ...]
    happened: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationRecord:
    """The origin of the requests that a run's retrievers are calibrated on, and the quality."""

    requests: CalibrationRequests = field(default_factory=CalibrationRequests)
    retrievers: tuple[CalibrationQuality, ...] = ()


def measure_calibration(
    retriever: Retriever,
    bank: Bank,
    requests: CalibrationRequests,
    calibration: Calibration | None,
) -> CalibrationQuality | None:
    """Measure the probabilities of a retriever, calibrated on `requests`, on the test queries.

    Returns:
        None if there is no calibration, or there are no test queries.
    """
    queries = bank.split("test")
    if not queries or calibration is None:
        return None
    texts = [query.query for query in queries]
    hits = retriever.search(texts, DEPTH)
    right = mark_right(bank, queries, hits[0])
    chances = calibration.chances(retriever, texts, hits)
    real = hits[0] >= 0
    served = right[:, :FIRST].any(axis=1)
    best = chances.max(axis=1, initial=0)
    threshold = float(calibration.threshold)
    return CalibrationQuality(
        retriever=retriever.name,
        n_requests=len(requests.queries),
        threshold=threshold,
        lost=LOST,
        n=len(queries),
        n_served=int(served.sum()),
        refused=int(np.sum(served & (best < threshold))),
        **measure_reliability(chances[real], right[real]),
    )


def write_calibration(
    path: Path, requests: CalibrationRequests, measured: Sequence[CalibrationQuality]
) -> None:
    """Write a calibration.json, atomically."""
    origin = asdict(requests)
    del origin["queries"], origin["missing"]
    content = {"requests": origin, "retrievers": [asdict(one) for one in measured]}
    write_json(path, content)


def read_calibration_record(path: Path) -> CalibrationRecord:
    """Read a calibration.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, CalibrationRecord)
