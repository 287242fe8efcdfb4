"""Nearest neighbours: votes first, and the rest by description."""

import numpy as np

from toolbank.bank import Bank
from toolbank.retrievers.config import DescriptionsConfig, NearestConfig
from toolbank.retrievers.descriptions import DescriptionsRetriever
from toolbank.retrievers.nearest import NearestRetriever

REQUEST = "Please soak the roses unless it rains"


def fit(bank, neighbours):
    retriever = NearestRetriever(NearestConfig(neighbours=neighbours))
    retriever.fit(bank)
    return retriever


def test_the_tools_of_the_nearest_query_come_first(bank):
    retriever = fit(bank, neighbours=1)
    indices, scores = retriever.search([REQUEST], 6)
    first = {retriever.tools[i] for i in indices[0, :2]}
    assert first == {"garden.water", "garden.forecast"}
    assert (scores[0, :2] > 0).all()
    assert (scores[0, 2:] <= 0).all()


def test_tools_without_a_vote_follow_in_the_order_of_their_descriptions(bank):
    nearest, _ = fit(bank, neighbours=1).search([REQUEST], 6)
    descriptions = DescriptionsRetriever(DescriptionsConfig())
    descriptions.fit(bank)
    by_description, _ = descriptions.search([REQUEST], 6)
    voted = set(nearest[0, :2].tolist())
    rest = [i for i in by_description[0].tolist() if i not in voted]
    assert nearest[0, 2:].tolist() == rest


def test_more_neighbours_than_queries_is_all_of_them(bank):
    _, scores = fit(bank, neighbours=1000).search([REQUEST], 6)
    assert (scores[0] > 0).sum() == 4


def test_without_queries_descriptions_decide(bank):
    indices, _ = fit(Bank(bank.tools), neighbours=5).search([REQUEST], 6)
    descriptions = DescriptionsRetriever(DescriptionsConfig())
    descriptions.fit(bank)
    np.testing.assert_array_equal(indices, descriptions.search([REQUEST], 6)[0])
