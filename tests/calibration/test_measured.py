"""What probabilities are worth, told on queries that they were not learnt from."""

import numpy as np
import pytest

from tests.calibration.test_calibration import TOOLS, make_bank
from toolbank.bank.bank import Bank
from toolbank.calibration.measured import (
    measure_calibration,
    read_calibrated,
    write_calibrated,
)
from toolbank.retrievers import create_retriever
from toolbank.retrievers.bm25.config import Bm25Config


@pytest.fixture(scope="module")
def measured():
    retriever = create_retriever(Bm25Config())
    retriever.fit(make_bank())
    return measure_calibration(retriever, make_bank())


def test_probabilities_are_held_against_the_test_queries(measured):
    assert (measured.retriever, measured.n_validation, measured.n) == ("bm25", 30, 30)
    # Each query names a thing and a deed: its tool is found first, by some always.
    assert measured.n_served == 30
    assert measured.refused <= 1
    counts, happened = np.array(measured.counts), np.array(measured.happened)
    assert np.isclose((counts * happened).sum(), 30)
    distance = np.abs(np.array(measured.said) - happened)
    assert np.isclose(measured.error, (distance * counts).sum() / counts.sum())


def test_they_are_written_and_read(measured, tmp_path):
    write_calibrated(tmp_path / "calibration.json", [measured])
    assert read_calibrated(tmp_path / "calibration.json") == [measured]


def test_without_test_queries_there_is_nothing_to_tell():
    bank = Bank(TOOLS, make_bank().split("validation"))
    retriever = create_retriever(Bm25Config())
    retriever.fit(bank)
    assert measure_calibration(retriever, bank) is None
