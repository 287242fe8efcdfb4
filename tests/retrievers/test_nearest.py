import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.retrievers.settings import Bm25Config, DescriptionsConfig, NearestConfig
from toolbank.retrievers.unseen import DescriptionOdds

PLACE = DescriptionOdds.place
REQUEST = "Please soak the roses unless it rains"


@pytest.fixture(autouse=True)
def _unseen_tools_as_those_without_a_vote(monkeypatch):
    """Four queries are too few to say where tools that no query uses belong."""
    monkeypatch.setattr(DescriptionOdds, "place", lambda _, scores, *__: scores)


def fit(bank, neighbours):
    return fit_one(NearestConfig(neighbours=neighbours), bank)


@pytest.mark.parametrize("by", ["embedding", "bm25"])
def test_the_tools_of_the_nearest_query_come_first(bank, by):
    retriever = fit_one(NearestConfig(neighbours=1, by=by), bank)
    indices, scores = retriever.search([REQUEST, "xyzzy", ""], 6)
    first = {retriever.tools[i] for i in indices[0, :2]}
    assert first == {"garden.water", "garden.forecast"}
    assert (scores[0, :2] > 0).all()
    assert (scores[0, 2:] <= 0).all()
    if by == "bm25":
        assert scores[0, :2] == pytest.approx(1, abs=0.01)
        assert scores[1].tolist() == [-1] * 6
        assert sorted(indices[1].tolist()) == [0, 1, 2, 3, 4, 5]


def test_tools_without_a_vote_follow_in_the_order_of_their_descriptions(bank):
    nearest, _ = fit(bank, neighbours=1).search([REQUEST], 6)
    descriptions = fit_one(DescriptionsConfig(), bank)
    by_description, _ = descriptions.search([REQUEST], 6)
    voted = set(nearest[0, :2].tolist())
    rest = [i for i in by_description[0].tolist() if i not in voted]
    assert nearest[0, 2:].tolist() == rest


@pytest.mark.parametrize(
    ("by", "other"), [("embedding", DescriptionsConfig()), ("bm25", Bm25Config())]
)
def test_without_queries_descriptions_decide(bank, by, other):
    request = ["silence the song and the speakers"]
    expected = fit_one(other, bank).search(request, 2)[0]
    assert (expected >= 0).all()
    found = fit_one(NearestConfig(by=by), Bank(bank.tools)).search(request, 2)[0]
    np.testing.assert_array_equal(found, expected)


def test_a_tool_that_no_query_uses_stands_where_its_description_says(bank, monkeypatch):
    monkeypatch.setattr(DescriptionOdds, "place", PLACE)
    retriever = fit(bank, neighbours=10)
    request = ["Silence the speakers"]
    indices, scores = retriever.search(request, 6)
    place = indices[0].tolist().index(retriever.tools.index("music.stop"))
    slope, intercept = retriever.described.scale
    odds = retriever.described.log_odds(request, retriever._encoder)
    assert scores[0, place] * slope + intercept == pytest.approx(odds.max(), abs=1e-4)


@pytest.mark.parametrize("by", ["embedding", "bm25"])
def test_a_train_query_has_no_vote_for_itself_but_its_twin_has(bank, by):
    train = bank.split("train")
    twin = train[0].model_copy(update={"id": "twin", "tools": ("music.stop",)})
    both = Bank(bank.tools, (*train, twin))
    retriever = fit_one(NearestConfig(neighbours=1, by=by), both)
    indices, _ = retriever.search_train(Bank(bank.tools, (*train, twin)), 1)
    assert retriever.tools[indices[0, 0]] == "music.stop"
    assert retriever.tools[indices[-1, 0]] == "garden.water"
