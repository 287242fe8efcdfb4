"""Measure how well retrievers tell requests that a tool fits from those that none fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toolbank.bank.ranking import Share, measure_share
from toolbank.config.explain import read_checked
from toolbank.evaluation.figures import Figure
from toolbank.evaluation.tables import LONGEST_SET, WIDTH
from toolbank.retrievers.calibration import DEPTH
from toolbank.system.files import write_json
from toolbank.system.numbers import count
from toolbank.system.terminal import align, one_line, wrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from toolbank.evaluation.sets import EvaluationSet
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.calibration import Calibration

_MOST_POINTS = 101


@dataclass(frozen=True)
class RefusalCurve:
    """The two errors by threshold, from high to low: an answer below it is marked `fits: false`.

    `answered` is the share of the requests that no tool fits and that are not marked, `refused` the
    share of the others that are marked. At most 101 thresholds are kept, evenly spread.
    """

    thresholds: tuple[float, ...] = ()
    answered: tuple[float, ...] = ()
    refused: tuple[float, ...] = ()


@dataclass(frozen=True)
class RefusalFigures:
    """How a retriever treats the requests of a set that no tool fits, and the others.

    `answered`: of the requests that no tool fits, those not marked as such. `refused`: of those
    that a tool of the bank fits, those that are marked. Both are at the calibrated `threshold`;
    without a calibration there is none, and both are None. `auroc` is the probability that a request
    that a tool fits has a higher probability (without a calibration, a higher best score) than one
    that none fits; ties count as one half. It is None if there are only requests of one kind or if
    scores of requests do not compare. `n_not_graded` of the requests are the writer's word alone.
    `is_learned`: the calibration has learned from those of this set.
    """

    retriever: str
    set: str
    n_missing: int
    n_served: int
    threshold: float | None = None
    answered: Share | None = None
    refused: Share | None = None
    auroc: float | None = None
    n_not_graded: int = 0
    is_learned: bool = False
    curve: RefusalCurve = RefusalCurve()


def measure_refusals(
    retriever: Retriever,
    evaluated: EvaluationSet,
    calibration: Calibration | None,
    learned: frozenset[str] = frozenset(),
) -> RefusalFigures | None:
    """Measure the refusals of a retriever on a set; None if a tool fits each request of the set.

    `learned` are the texts that the calibration has learned from. Requests whose labels name only
    tools that the bank lacks are skipped.
    """
    if not evaluated.missing:
        return None
    served = [
        text
        for text, gold in zip(evaluated.queries, evaluated.gold, strict=True)
        if min(gold, default=len(evaluated.tools)) < len(evaluated.tools)
    ]
    texts = [*served, *evaluated.missing]
    fits = np.arange(len(texts)) < len(served)
    figures = RefusalFigures(
        retriever.name,
        evaluated.name,
        len(evaluated.missing),
        len(served),
        n_not_graded=evaluated.not_graded,
        is_learned=not learned.isdisjoint(evaluated.missing),
    )
    if calibration is None and not retriever.config.scores_compare:
        return figures
    hits = retriever.search(texts, DEPTH)
    if calibration is None:
        # A request without hits has a lower score than any other.
        lowest = np.finfo(np.float64).min
        best = np.where(hits[0] >= 0, hits[1].astype(np.float64), lowest)[:, 0]
    else:
        best = calibration.chances(retriever, texts, hits).max(axis=1, initial=0)
        marked = best < float(calibration.threshold)
        n_answered, n_refused = (~marked[~fits]).sum(), marked[fits].sum()
        figures = replace(
            figures,
            threshold=float(calibration.threshold),
            answered=measure_share(int(n_answered), figures.n_missing),
            refused=measure_share(int(n_refused), figures.n_served),
            curve=draw_curve(fits, best),
        )
    if served:
        from sklearn.metrics import roc_auc_score

        figures = replace(figures, auroc=float(roc_auc_score(fits, best)))
    return figures


def draw_curve(fits: NDArray[np.bool_], best: NDArray[np.float64]) -> RefusalCurve:
    """Compute both errors at each probability [n] that occurs, as far as they are needed.

    Without requests of both kinds, there is no curve.
    """
    if fits.all() or not fits.any():
        return RefusalCurve()
    thresholds = np.unique(best)[::-1]
    places = np.linspace(0, len(thresholds) - 1, min(_MOST_POINTS, len(thresholds)))
    thresholds = thresholds[np.unique(places.round().astype(np.int64))]
    served, missing = np.sort(best[fits]), np.sort(best[~fits])
    refused = np.searchsorted(served, thresholds) / len(served)
    answered = 1 - np.searchsorted(missing, thresholds) / len(missing)
    return RefusalCurve(
        *(tuple(one.tolist()) for one in (thresholds, answered, refused))
    )


def write_refusals(path: Path, figures: Sequence[RefusalFigures]) -> None:
    """Write a refusals.json, atomically; without figures, remove it."""
    if figures:
        write_json(path, [asdict(one) for one in figures])
    else:
        path.unlink(missing_ok=True)


def read_refusals(path: Path) -> list[RefusalFigures]:
    """Read a refusals.json; without the file there are no figures.

    Raises:
        InputError: the file is damaged.
    """
    return read_checked(path, list[RefusalFigures]) if path.is_file() else []


def list_figures(refusals: Sequence[RefusalFigures]) -> list[Figure]:
    """Make figures of the metrics wrongly_answered, wrongly_refused and auroc, without a cut-off."""
    found = []
    for one in refusals:
        make = partial(Figure, one.retriever, one.set, k=None)
        shares = {"wrongly_answered": one.answered, "wrongly_refused": one.refused}
        found += [
            make(name, value=share.share, low=share.low, high=share.high, n=share.n)
            for name, share in shares.items()
            if share
        ]
        if one.auroc is not None:
            n = one.n_missing + one.n_served
            found.append(make("auroc", value=one.auroc, low=None, high=None, n=n))
    return found


def format_refusals(figures: Sequence[RefusalFigures]) -> str:
    """Format a table for each set; "" without figures."""
    sets: dict[str, list[RefusalFigures]] = {}
    for one in figures:
        sets.setdefault(one.set, []).append(one)
    return "\n\n".join(_format_set(rows) for rows in sets.values())


def _format_set(rows: Sequence[RefusalFigures]) -> str:
    first = rows[0]
    head = [
        f"{one_line(first.set, LONGEST_SET)}: {count(first.n_missing, 'request')} that no tool fits, "
        f"and {first.n_served:,} that a tool fits, in percent (95 % interval).",
        *_note(first),
    ]
    table = [("retriever", "wrongly answered", "wrongly refused", "AUROC")]
    table += [
        (
            one.retriever,
            str(one.answered or "not calibrated"),
            str(one.refused or ""),
            "" if one.auroc is None else f"{one.auroc:.3f}",
        )
        for one in rows
    ]
    return "\n".join([wrap(" ".join(head), WIDTH), "", *align(table, right=(1, 2, 3))])


def _note(first: RefusalFigures) -> Iterator[str]:
    if first.n_not_graded:
        yield f"{first.n_not_graded:,} of the first are not graded: a tool may fit them."
    if first.is_learned:
        yield "The calibration has learned from the first, so that these figures are too good."
