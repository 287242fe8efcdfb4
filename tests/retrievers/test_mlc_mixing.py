"""MLC: how much a tool's description counts beside the classifier."""

import numpy as np
import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.relevance import validation_recall
from toolbank.retrievers.settings import MlcConfig

NOUNS = ("lamp", "door", "garden", "kettle", "piano", "car", "boat", "letter")


def make_bank(wording):
    """Each tool is used once; validation queries are worded as `wording` says."""
    tools = tuple(
        Tool(name=f"{noun}.use", kind="function", summary=f"Use the {noun}.")
        for noun in NOUNS
    )
    train = [
        Query(id=f"t{i}", query=f"task {i}", tools=(tool.name,), split="train")
        for i, tool in enumerate(tools)
    ]
    asked = [
        Query(
            id=f"v{i}",
            query=wording.format(noun=NOUNS[i], number=i),
            tools=(tool.name,),
            split="validation",
        )
        for i, tool in enumerate(tools)
    ]
    return Bank(tools, (*train, *asked))


def fit(bank, epochs, **settings):
    config = MlcConfig.model_validate(
        {"frozen": True, "training": {"epochs": epochs}, **settings}
    )
    retriever = create_retriever(config)
    retriever.fit(bank)
    return retriever


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
