"""MLC: how much a tool's description counts beside the classifier."""

import numpy as np
import pytest

from tests import world
from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.retrievers.relevance import validation_recall
from toolbank.retrievers.settings import MlcConfig

NOUNS = ("lamp", "door", "garden", "kettle", "piano", "car", "boat", "letter")


def make_bank(wording):
    """Each tool is used once; validation queries are worded as `wording` says."""
    uses = [
        (form.format(noun=noun, number=number), [f"{noun}.use"], split)
        for form, split in (("task {number}", "train"), (wording, "validation"))
        for number, noun in enumerate(NOUNS)
    ]
    return world.make_bank({f"{noun}.use": f"Use the {noun}." for noun in NOUNS}, uses)


def fit(bank, epochs, **settings):
    config = {"frozen": True, "training": {"epochs": epochs}, **settings}
    return fit_one(MlcConfig.model_validate(config), bank)


def test_a_description_counts_like_so_many_queries():
    bank = make_bank("task {number}")
    twice = bank.queries[0].model_copy(update={"id": "again"})
    unused = [q for q in bank.split("train") if q.tools != ("door.use",)]
    shares = fit(Bank(bank.tools, (*unused, twice)), 1, description_weight=4).shares
    np.testing.assert_allclose(shares[:3], [4 / 6, 1, 4 / 5])


@pytest.mark.parametrize(
    ("wording", "epochs"),
    [("the {noun}, please", 0.1), ("task {number}", 60)],
    ids=["what is described", "what is learnt"],
)
def test_the_weight_is_the_best_on_validation_queries(wording, epochs):
    bank = make_bank(wording)
    retriever = fit(bank, epochs)
    chosen = validation_recall(retriever.search, bank)
    tried = []
    for weight in (0, 1, 2, 4, 8, 16, 32):
        retriever.shares = np.full(len(NOUNS), weight / (weight + 1))
        tried.append(validation_recall(retriever.search, bank))
    assert min(tried) < max(tried) == pytest.approx(chosen, abs=1e-5)
