from dataclasses import replace

import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.bank.records import Provenance
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.dense import common_part, subtract_common
from toolbank.retrievers.relevance import train_relevance
from toolbank.retrievers.settings import Tool2VecConfig
from toolbank.retrievers.tool2vec import Centroids, Tool2VecRetriever

E1, E2, E3 = np.eye(3, dtype=np.float32)


def test_a_vector_is_the_sum_of_its_queries_and_its_weighted_description():
    vectors = Centroids(
        queries=np.stack([E1, E2]),
        descriptions=np.stack([E3, E3, E3]),
        uses=np.array([[0, -1], [0, 1]]),
        weights=np.array([1, 0.5]),
        description_weight=2.0,
    ).vectors
    first, second = np.array([[1, 0.5, 2], [0, 0.5, 2]]) / np.sqrt([[5.25], [4.25]])
    np.testing.assert_allclose(vectors[0], first, atol=1e-6)
    np.testing.assert_allclose(vectors[1], second, atol=1e-6)
    np.testing.assert_allclose(vectors[2], E3)


@pytest.mark.parametrize("weight", [0.0, 2.0])
@pytest.mark.parametrize("queries", [[], [E1, -E1]], ids=["none", "cancelling"])
def test_without_queries_that_count_it_is_the_description(queries, weight):
    uses = np.zeros((len(queries), 1), np.int64)
    embedded = np.reshape(queries, (-1, 3)).astype(np.float32)
    found = Centroids(embedded, np.stack([E2]), uses, np.ones(len(queries)), weight)
    np.testing.assert_allclose(found.vectors[0], E2)


def test_what_is_common_is_subtracted_and_few_texts_have_little():
    vectors = np.stack([E1, E2] * 500)
    rest = subtract_common(common_part(vectors), vectors)
    np.testing.assert_allclose(np.linalg.norm(rest, axis=1), 1, atol=1e-6)
    assert rest[0] @ rest[1] < -0.9
    assert np.linalg.norm(common_part(E1[None])) < 0.05
    assert common_part(np.zeros((0, 3), np.float32)).tolist() == [0, 0, 0]


def test_scores_of_used_tools_are_cosines_with_the_embedded_requests(bank, cases):
    retriever = cases["tool2vec"].fitted
    embedded = retriever.embed(["water the lawn"])
    assert np.linalg.norm(embedded[0]) == pytest.approx(1, abs=1e-5)
    indices, scores = retriever.search(["water the lawn"], 6)
    cosines = (embedded @ retriever.vectors.T)[0]
    used = np.isin(indices[0], train_relevance(bank).tools)
    assert used.sum() == 4
    expected = cosines[indices[0, used]]
    np.testing.assert_allclose(scores[0, used], expected, atol=1e-5)


def test_a_query_written_by_rules_counts_for_a_quarter(bank):
    made = Provenance(attempt=0, engine="rules", model="", prompt_hash="", seed=0)
    by_rules = bank.queries[0].model_copy(update={"provenance": made})
    relevance = train_relevance(Bank(bank.tools, (by_rules, *bank.queries[1:])))
    assert relevance.weights.tolist() == [0.25, 1, 1, 1]


@pytest.mark.parametrize("weight", [0.0, 2.0])
@pytest.mark.parametrize("centre", [True, False])
def test_a_querys_own_tools_are_as_made_without_it(bank, weight, centre, monkeypatch):
    config = Tool2VecConfig(centre=centre, description_weight=weight)
    retriever = fit_one(config, bank)
    own = retriever.own_vectors(bank)
    relevance = train_relevance(bank)
    assert own.shape == (4, 2, 384)
    # What all queries have in common is held, as the docstring says.
    commons = iter([retriever.common, retriever.common_to_descriptions] * 4)
    common_part = "toolbank.retrievers.tool2vec.common_part"
    monkeypatch.setattr(common_part, lambda _: next(commons))
    for row, query in enumerate(bank.split("train")):
        blind = fit_one(
            config, Bank(bank.tools, tuple(q for q in bank.queries if q is not query))
        )
        for place, tool in enumerate(relevance.tools[row]):
            expected = blind.vectors[tool] if tool >= 0 else np.zeros(384)
            np.testing.assert_allclose(own[row, place], expected, atol=1e-6)


def test_an_ask_that_siblings_share_counts_for_each_of_them(asked):
    retriever = fit_one(Tool2VecConfig(), asked)
    texts = [query.query for query in asked.split("train")]
    texts += [ask.ask for ask in asked.asks]
    vectors = load_encoder(SentenceConfig()).encode_queries(texts)
    np.testing.assert_array_equal(retriever.common, common_part(vectors))
    shared = subtract_common(retriever.common, vectors[-1:])[0]
    refund, track = asked.index["shop.refund_order"], asked.index["shop.trackParcel"]
    (described,) = retriever.embed_tools([asked.tools[refund]])
    expected = shared + 2 * described
    np.testing.assert_allclose(
        retriever.vectors[refund], expected / np.linalg.norm(expected), atol=1e-5
    )
    # As a train query it is one, and as if without it neither has it.
    *_, own = retriever.own_vectors(asked)
    np.testing.assert_allclose(own[int(refund > track)], described, atol=1e-5)


def test_asks_for_an_added_tool_give_the_vector_that_a_fit_with_them_gives(asked):
    config = Tool2VecConfig(centre=False)
    name, own = "music.stop", tuple(a for a in asked.asks if a.tool == "music.stop")
    (tool,) = (tool for tool in asked.tools if tool.name == name)
    others = tuple(tool for tool in asked.tools if tool.name != name)
    grown, fitted = Tool2VecRetriever(config), Tool2VecRetriever(config)
    grown.fit(replace(asked, tools=others))
    grown = grown.add_tools([tool], {name: [ask.ask for ask in own]})
    fitted.fit(replace(asked, tools=(*others, tool)))
    np.testing.assert_allclose(grown.vectors, fitted.vectors, atol=1e-6)
    np.testing.assert_array_equal(grown.seen, fitted.seen)
