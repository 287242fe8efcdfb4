import numpy as np
import pytest
from pydantic import ValidationError

from tests.encoders.finetune.test_pairs import tools_of
from tests.tiny_models import tiny_encoder
from toolbank.encoders import load_encoder
from toolbank.encoders.finetune import make_rows
from toolbank.encoders.finetune_data import make_texts
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.system.errors import InputError

QUERIES = ["water the lawn", "water it", "play jazz", "sing a song", "read the mail"]
USES = np.array([[0], [0], [1], [1], [-1]])
TOOLS = ["open the valve", "music", "the weather"]


def test_mined_negatives_are_the_nearest_by_the_encoder_and_not_random(tmp_path):
    config = SentenceConfig(
        model=str(tiny_encoder(tmp_path, "e5")),
        query_prefix="query: ",
        document_prefix="passage: ",
    )
    texts = make_texts(config, QUERIES, USES, TOOLS)
    training = EncoderTraining(hard_negatives=1)
    rows, _ = make_rows(config, training, texts, seed=0)
    again, _ = make_rows(config, training, texts, seed=0)
    np.testing.assert_array_equal(rows, again)
    encoder = load_encoder(config)
    queries, tools = encoder.encode_queries(QUERIES), encoder.encode_documents(TOOLS)
    vectors = np.concatenate([queries, tools])
    for anchor, positive, negative in rows:
        same_kind = range(5) if positive < 5 else range(5, 8)
        own = tools_of(texts, anchor)
        others = [i for i in same_kind if not tools_of(texts, i) & own]
        nearest = max(others, key=lambda i: float(vectors[anchor] @ vectors[i]))
        assert negative == nearest


def test_rows_are_counted():
    texts = make_texts(SentenceConfig(), QUERIES, USES, TOOLS)
    training = EncoderTraining(loss="triplet", pairs=("query-query",))
    rows, counts = make_rows(SentenceConfig(), training, texts, seed=0)
    assert rows.shape == (4, 3)
    assert counts == {
        "pairs": 4,
        "train queries in no pair": 1,
        "train queries without a tool of the bank": 1,
        "pairs without a negative": 0,
    }


def test_that_no_pair_can_be_made_is_told():
    texts = make_texts(SentenceConfig(), ["one"], np.array([[0]]), TOOLS)
    training = EncoderTraining(pairs=("query-query",))
    with pytest.raises(InputError, match="no query-query pairs can be made of 1 train"):
        make_rows(SentenceConfig(), training, texts, seed=0)


@pytest.mark.parametrize("more", [{"hard_negatives": 2}, {"mini_batch": 8}])
def test_triplets_take_one_negative_and_no_caching(more):
    with pytest.raises(ValidationError, match="triplet takes one negative"):
        EncoderTraining(loss="triplet", **more)
