import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from tests.encoders.finetune.test_losses import check_same_loss, measure_loss
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.encoders.model import load_model
from toolbank.encoders.ranking_loss import MaskedRankingLoss, SharedTools, embed_once
from toolbank.training.trainers import PairCollator, encode_texts

TEXTS = ["water the lawn", "read a book " * 8, "play a song", "drive the car home"]
# The first text stands in all rows, the second in two.
ROWS = np.array([[0, 1, 2], [3, 0, 1], [2, 3, 0]])
COLUMNS = ("anchor", "positive", "negative")


def read(encoder):
    """The columns of a batch of all rows, as a training has them."""
    rows = [dict(zip(COLUMNS, row, strict=True), label=0) for row in ROWS.tolist()]
    batch = PairCollator(encoder, encode_texts(encoder, TEXTS, 64), COLUMNS)(rows)
    return [
        {name: batch[f"{column}_{name}"] for name in ("input_ids", "attention_mask")}
        for column in COLUMNS
    ]


def note_texts(encoder):
    """The numbers of texts and of tokens, padding among them, of each pass from now on."""
    shapes = []
    encoder.register_forward_pre_hook(
        lambda _, given: shapes.append(tuple(given[0]["input_ids"].shape))
    )
    return shapes


@pytest.mark.parametrize("kind", KINDS)
def test_the_vectors_are_those_of_the_texts(tmp_path, kind):
    encoder = load_model(str(tiny_encoder(tmp_path, kind))).eval()
    found = embed_once(encoder, read(encoder))
    expected = encoder.encode(TEXTS, convert_to_tensor=True)
    for column, vectors in zip(ROWS.T, found, strict=True):
        torch.testing.assert_close(vectors, expected[column], atol=1e-5, rtol=1e-5)


def test_a_text_of_several_rows_is_embedded_once_with_little_padding(tmp_path):
    encoder = load_model(str(tiny_encoder(tmp_path)))
    features, shapes = read(encoder), note_texts(encoder)
    shared = SharedTools(ROWS, np.arange(4)[:, None])
    MaskedRankingLoss(encoder, shared, 20.0)(features, torch.arange(3))
    assert sum(texts for texts, _ in shapes) == len(TEXTS)
    lengths = sorted(len(ids) for ids in encode_texts(encoder, TEXTS, 64))
    assert [width for _, width in shapes] == [lengths[1], lengths[3]]


def test_loss_and_gradients_are_the_librarys(tmp_path):
    folder = tiny_encoder(tmp_path, dropout=0)
    shared, found = SharedTools(ROWS, np.arange(4)[:, None]), []

    class LibrarysForward(MaskedRankingLoss):
        forward = MultipleNegativesRankingLoss.forward

    for make in (MaskedRankingLoss, LibrarysForward):
        encoder = load_model(str(folder)).train()
        loss = make(encoder, shared, 20.0)
        found.append(measure_loss(loss, read(encoder), torch.arange(3)))
    check_same_loss(*found)
