import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from tests.tiny_models import tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.relevance import validation_recall
from toolbank.retrievers.settings import DescriptionsConfig

TOOLS = tuple(Tool(name=f"t{i}", kind="function", summary=f"t{i}") for i in range(9))


def query(name, *tools, split="validation"):
    return Query(id=name, query=name, tools=tools, split=split)


def test_recall_is_over_the_tools_that_the_bank_has_and_the_first_five_hits():
    queries = (
        query("a", "gone"),
        query("b", "t1", "t5"),
        query("c", "t0", "gone"),
        query("d", "t2", split="test"),
    )
    bank = Bank(TOOLS, queries)
    asked = []

    def search(queries, k):
        asked.extend(queries)
        return np.tile(np.arange(9), (len(queries), 1)), np.zeros((len(queries), 9))

    # Of b's tools one is among the first five, of c's all that there are.
    assert validation_recall(search, bank) == pytest.approx((0.5 + 1) / 2, abs=1e-5)
    assert asked == ["b", "c"]


def test_of_searches_that_find_as_much_the_one_that_ranks_higher_is_better():
    bank = Bank(TOOLS, (query("a", "t1"),))

    def best_first(*ranked):
        hits = np.array([ranked]), np.zeros((1, len(ranked)))
        return validation_recall(lambda *_: hits, bank)

    last, first = best_first(0, 2, 3, 4, 1), best_first(1, 0, 2, 3, 4)
    assert best_first(0, 2, 3, 4, 5) < last < first


def test_a_training_goes_on_where_validation_names_only_unknown_tools(tmp_path):
    encoder = SentenceConfig(model=str(tiny_encoder(tmp_path, dropout=0)))
    training = {"epochs": 3, "batch_size": 4, "learning_rate": 1e-3}
    train = tuple(query(f"use t{i}", f"t{i}", split="train") for i in range(9))
    found = []
    for more in ((), (query("a", "gone"),)):
        config = DescriptionsConfig(encoder=encoder, training=training)
        found.append(fit_one(config, Bank(TOOLS, (*train, *more))).vectors)
    np.testing.assert_array_equal(found[0], found[1])
