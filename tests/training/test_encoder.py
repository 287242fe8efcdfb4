import numpy as np
import pytest
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from tests.tiny_models import KINDS, tiny_encoder
from tests.training.classifier import difference
from toolbank.encoders.model import load_model
from toolbank.retrievers.base import FitContext
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.training.config import TrainingConfig
from toolbank.training.run import train_encoder
from toolbank.training.trainers import PairCollator, encode_texts

ANCHORS = [
    f"{verb} the {thing}"
    for verb in ("play", "open")
    for thing in ("song", "door", "parcel", "lawn", "car", "room", "mail", "book")
]
TEXTS = [
    *ANCHORS,
    *(f"please {text} again {'rain ' * (i % 5)}" for i, text in enumerate(ANCHORS)),
]
ROWS = np.arange(32).reshape(2, 16).T
CONFIG = TrainingConfig(epochs=4, batch_size=8, learning_rate=1e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


def margin(encoder):
    """How much nearer a text is to its pair than to the others, on average."""
    encoder.eval()
    vectors = encoder.encode(TEXTS, convert_to_tensor=True, normalize_embeddings=True)
    cosines = vectors[:16] @ vectors[16:].T
    return (cosines.diag().mean() - cosines.mean()).item()


def train(encoder, config=CONFIG, context=None, validate=None):
    loss = MultipleNegativesRankingLoss(encoder)
    context = context or FitContext()
    return train_encoder(encoder, TEXTS, ROWS, loss, config, context, validate=validate)


def weights(encoder):
    return {k: v.detach().clone() for k, v in encoder.state_dict().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_come_nearer(tmp_path, kind):
    encoder = load_model(str(tiny_encoder(tmp_path, kind)))
    before = margin(encoder)
    config = CONFIG.model_copy(update={"epochs": 10, "learning_rate": 2e-3})
    assert train(encoder, config).steps == 20
    assert margin(encoder) > before + 0.05


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_killed_training_goes_on_to_the_same_weights(folder, tmp_path, precision):
    config = CONFIG.model_copy(update={"precision": precision})

    def train_on(context, killed_in=None):
        encoder, done = load_model(str(folder)), []

        def validate():
            done.append(1)
            if len(done) == killed_in:
                raise KeyboardInterrupt
            return margin(encoder)

        train(encoder, config, context, validate)
        return weights(encoder)

    whole = train_on(FitContext(seed=3))
    context = FitContext(seed=3, checkpoints=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_on(context, killed_in=3)
    assert difference(whole, train_on(context)) == 0


def test_epochs_are_shuffled_and_whole(folder, monkeypatch):
    read, collate = [], PairCollator.__call__

    def note(self, rows):
        read.extend((row["anchor"], row["positive"]) for row in rows)
        return collate(self, rows)

    monkeypatch.setattr(PairCollator, "__call__", note)
    config = CONFIG.model_copy(update={"epochs": 2, "batch_size": 4})
    train(load_model(str(folder)), config)
    rows = [tuple(row) for row in ROWS]
    epochs = [read[:16], read[16:]]
    assert [sorted(epoch) for epoch in epochs] == [rows, rows]
    assert epochs[0] != epochs[1] and rows not in epochs


def test_capitals_are_read_as_the_encoder_reads_them(tmp_path):
    folder = tiny_encoder(tmp_path)
    tokens = read_json(folder / "tokenizer.json")
    tokens["normalizer"]["lowercase"] = False
    write_json(folder / "tokenizer.json", tokens)
    settings = {"max_seq_length": 128, "do_lower_case": True}
    write_json(folder / "sentence_bert_config.json", settings)
    encoder = load_model(str(folder))
    plain, loud = encode_texts(encoder, ["open the door", "OPEN The Door"], 20)
    assert plain == loud
    assert encoder.tokenizer.unk_token_id not in loud


def test_texts_have_the_encoders_tokens_and_end_as_one_where_they_are_cut(folder):
    encoder = load_model(str(folder))
    long = "open the door " * 20
    *found, cut = encode_texts(encoder, [*TEXTS, long], 20)
    assert found == [encoder.tokenizer(text)["input_ids"] for text in TEXTS]
    whole = encoder.tokenizer(long)["input_ids"]
    assert cut == [*whole[:19], encoder.tokenizer.sep_token_id]


def test_what_has_no_tokens_to_pad_is_refused():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    bag = SentenceTransformer(modules=[BoW(["a"])])
    with pytest.raises(InputError, match="not a transformer"):
        encode_texts(bag, ["a"], 16)


def test_the_tokens_of_static_embeddings_are_those_of_each_text():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    static = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)])
    assert encode_texts(static, ["b", "", "c"], 16) == [[1], [], [2]]
