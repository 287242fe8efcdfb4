"""Wrongly answered and wrongly refused requests, against scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.evaluation.refusals import (
    RefusalFigures,
    draw_curve,
    format_refusals,
    list_figures,
    measure_refusals,
    read_refusals,
    write_refusals,
)
from toolbank.evaluation.sets import make_set
from toolbank.retrievers.settings import Bm25Config

SCORES = st.lists(
    st.tuples(st.booleans(), st.floats(0, 1, width=16)), min_size=2, max_size=60
)


@given(SCORES)
def test_the_curve_has_both_errors_at_its_thresholds(rows):
    fits, best = (np.array(column) for column in zip(*rows, strict=True))
    curve = draw_curve(fits, best)
    if fits.all() or not fits.any():
        assert curve.thresholds == ()
        return
    for threshold, answered, refused in zip(
        curve.thresholds, curve.answered, curve.refused, strict=True
    ):
        marked = best < threshold
        assert answered == pytest.approx(np.mean(~marked[~fits]))
        assert refused == pytest.approx(np.mean(marked[fits]))
    assert list(curve.thresholds) == sorted(curve.thresholds, reverse=True)


BANK = Bank(
    (
        Tool(name="shop.refund", summary="Refund the price of an order."),
        Tool(name="shop.track", summary="Track a parcel on its way."),
        Tool(name="shop.cancel", summary="Cancel an order that waits."),
    )
)
SERVED = [
    Query(id="1", query="refund my order", tools=("shop.refund",)),
    Query(id="2", query="track the parcel", tools=("shop.track",)),
    Query(id="3", query="of a tool that is gone", tools=("shop.gone",)),
]
MISSING = [
    Query(id="4", query="insure the shipment", tools=()),
    Query(id="5", query="repair an order", tools=()),
]


class FixedCalibration:
    """Probabilities by the request's first word."""

    threshold = np.array(0.4)

    def __init__(self):
        self.says = {"refund": 0.9, "track": 0.3, "insure": 0.1, "repair": 0.5}

    def chances(self, _, queries, hits):
        return np.array(
            [[self.says[one.split()[0]]] * hits[0].shape[1] for one in queries]
        )


@pytest.fixture(scope="module")
def retriever():
    return fit_one(Bm25Config(), BANK)


def test_errors_are_counted_at_the_threshold(retriever):
    evaluated = make_set("mine", BANK, SERVED, missing=MISSING)
    found = measure_refusals(retriever, evaluated, FixedCalibration())
    assert (found.n_missing, found.n_served) == (2, 2)
    assert (found.answered.count, found.answered.n) == (1, 2)
    assert (found.refused.count, found.refused.n) == (1, 2)
    assert found.auroc == roc_auc_score([1, 1, 0, 0], [0.9, 0.3, 0.1, 0.5])
    assert not found.is_learned
    learned = frozenset({"repair an order"})
    assert measure_refusals(
        retriever, evaluated, FixedCalibration(), learned
    ).is_learned


def test_without_a_calibration_scores_are_compared(retriever):
    evaluated = make_set("mine", BANK, SERVED, missing=MISSING)
    found = measure_refusals(retriever, evaluated, None)
    assert found.threshold is None and found.answered is None
    # "insure" has no hit, and "repair an order" a weaker one than the served ones.
    assert found.auroc == 1.0


def test_a_set_that_tools_always_fit_has_no_figures(retriever):
    assert measure_refusals(retriever, make_set("mine", BANK, SERVED), None) is None


def test_figures_are_written_read_and_shown(retriever, tmp_path):
    evaluated = replace(make_set("mine", BANK, SERVED, missing=MISSING), not_graded=1)
    found = [measure_refusals(retriever, evaluated, FixedCalibration())]
    path = tmp_path / "refusals.json"
    write_refusals(path, found)
    assert read_refusals(path) == found
    shown = format_refusals(found)
    assert "not graded" in shown and "50.0 %" in shown and "0.750" in shown
    by_metric = {one.metric: one.value for one in list_figures(found)}
    assert by_metric == {"wrongly_answered": 0.5, "wrongly_refused": 0.5, "auroc": 0.75}
    write_refusals(path, [])
    assert not path.exists() and read_refusals(path) == []


def test_figures_without_scores_have_no_rank(retriever):
    assert list_figures([RefusalFigures("bm25", "mine", 2, 2)]) == []
