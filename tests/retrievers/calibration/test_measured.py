from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrievers.calibration.test_calibration import TOOLS, make_bank
from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.retrievers.calibration_fit import (
    fit_calibration,
    measure_calibration,
    measure_reliability,
    read_calibration_record,
    write_calibration,
)
from toolbank.retrievers.calibration_requests import CalibrationRequests, Nearness
from toolbank.retrievers.settings import Bm25Config

REQUESTS = CalibrationRequests(
    make_bank().split("validation"),
    "30 validation requests",
    skipped={"a label names a tool that the bank lacks": 2},
    near={"validation": Nearness(30, 3), "test": Nearness(30, None)},
)


@pytest.fixture(scope="module")
def measured():
    retriever = fit_one(Bm25Config(), make_bank())
    bank = make_bank()
    calibration = fit_calibration(retriever, bank, REQUESTS.queries)
    return measure_calibration(retriever, bank, REQUESTS, calibration)


def test_probabilities_are_held_against_the_test_queries(measured):
    assert (measured.retriever, measured.n_requests, measured.n) == ("bm25", 30, 30)
    # Each query names a thing and a deed: its tool is found first, by some always.
    assert measured.n_served == 30
    assert measured.refused <= 1
    counts, happened = np.array(measured.counts), np.array(measured.happened)
    assert np.isclose((counts * happened).sum(), 30)
    distance = np.abs(np.array(measured.said) - happened)
    assert np.isclose(measured.error, (distance * counts).sum() / counts.sum())


def test_they_are_written_and_read(measured, tmp_path):
    path = tmp_path / "calibration.json"
    write_calibration(path, REQUESTS, [measured])
    record = read_calibration_record(path)
    assert record.retrievers == (measured,)
    assert record.requests == replace(REQUESTS, queries=())


def test_without_test_queries_there_is_nothing_to_tell():
    bank = Bank(TOOLS, make_bank().split("validation"))
    retriever = fit_one(Bm25Config(), bank)
    calibration = fit_calibration(retriever, bank, REQUESTS.queries)
    assert measure_calibration(retriever, bank, REQUESTS, calibration) is None


def test_the_error_of_a_worked_example():
    chances = np.array([0.15, 0.05, 0.95, 0.95, 0.55, 0.55])
    holds = np.array([0, 0, 1, 0, 1, 1], bool)
    found = measure_reliability(chances, holds)
    # Bins: .05 held 0; .15 held 0; .55 held 1 of 1, twice; .95 held half.
    wanted = (0.05 + 0.15 + 2 * 0.45 + 2 * 0.45) / 6
    assert found["error"] == pytest.approx(wanted)
    assert found["counts"] == (1, 1, 2, 2)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
def test_the_error_is_a_distance_of_shares(pairs):
    chances = np.array([chance for chance, _ in pairs], float)
    holds = np.array([held for _, held in pairs], bool)
    found = measure_reliability(chances, holds)
    assert 0 <= found["error"] <= 1
    assert sum(found["counts"]) == len(pairs)
    assert measure_reliability(holds.astype(float), holds)["error"] == 0
