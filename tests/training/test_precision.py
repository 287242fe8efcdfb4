import pytest
import torch
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from tests.tiny_models import tiny_encoder
from tests.training.classifier import TEXTS, Classifier
from tests.training.test_encoder import ROWS
from tests.training.test_encoder import TEXTS as PAIRED
from toolbank.encoders.model import load_model, save_model
from toolbank.retrievers.base import FitContext
from toolbank.training.config import TrainingConfig, choose_precision
from toolbank.training.run import train_encoder

CONFIG = TrainingConfig(
    epochs=2, batch_size=8, learning_rate=1e-3, precision="bf16", warmup=0
)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"amx_bf16": True, "avx512_bf16": True}, "bf16"),
        # Measured: slower than 32 bits.
        ({"amx_bf16": False, "avx512_bf16": True}, "fp32"),
        ({"architecture": "arm64"}, "fp32"),
        (None, "fp32"),
    ],
)
def test_a_cpu_that_is_faster_in_bf16_trains_in_it(monkeypatch, capabilities, expected):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    if capabilities is None:
        monkeypatch.delattr("torch.cpu.get_capabilities")
    else:
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    assert choose_precision(TrainingConfig()) == expected
    assert choose_precision(TrainingConfig(precision="fp32")) == "fp32"


def test_requests_are_encoded_in_32_bits_in_a_training_and_after(tmp_path):
    encoder = load_model(str(tiny_encoder(tmp_path / "tiny")))
    seen = []

    def validate():
        folder = tmp_path / str(len(seen))
        save_model(encoder, folder)
        seen.append((folder, encoder.encode(PAIRED, convert_to_tensor=True)))
        return float(len(seen))

    loss = MultipleNegativesRankingLoss(encoder)
    train_encoder(encoder, PAIRED, ROWS, loss, CONFIG, FitContext(), validate=validate)
    validate()
    for folder, vectors in seen:
        saved = load_model(str(folder)).encode(PAIRED, convert_to_tensor=True)
        assert torch.equal(saved, vectors)


def test_a_model_that_was_trained_in_bf16_answers_in_32_bits(tmp_path):
    trained, other = Classifier(tmp_path), Classifier(tmp_path)
    before = trained.loss()
    trained.train(CONFIG, FitContext())
    assert trained.loss() < before
    other.model.load_state_dict(trained.weights())
    assert trained.loss() == other.loss()
    batch = trained.collate(range(len(TEXTS)))
    assert trained.model(**batch).logits.dtype == torch.float32


def test_a_loss_is_taken_in_32_bits(tmp_path):
    encoder, seen = load_model(str(tiny_encoder(tmp_path))), []

    class Noted(MultipleNegativesRankingLoss):
        def compute_loss_from_embeddings(self, embeddings, labels):
            loss = super().compute_loss_from_embeddings(embeddings, labels)
            seen.append((embeddings, loss))
            return loss

    loss = Noted(encoder)
    train_encoder(encoder, PAIRED, ROWS, loss, CONFIG, FitContext())
    exact = MultipleNegativesRankingLoss(encoder)
    for embeddings, taken in seen:
        assert taken.dtype == torch.float32
        assert torch.equal(exact.compute_loss_from_embeddings(embeddings, None), taken)
