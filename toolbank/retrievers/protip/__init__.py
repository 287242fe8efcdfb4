"""ProTIP: one tool after the other, each subtracted from the request (arXiv 2312.10332)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.model import load_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def mean_encoder(name: str, max_length: int) -> SentenceTransformer:
    """Load the body of an encoder with mean pooling, whatever its own pooling is.

    Vectors keep their lengths: ProTIP subtracts them, and compares by L2 distance.

    Raises:
        InputError: there is no such model, or it cannot be found or read.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body: Any = load_model(name)[0]
    width = body.get_embedding_dimension()
    encoder = SentenceTransformer(modules=[body, Pooling(width, "mean")])
    encoder.max_seq_length = min(max_length, encoder.max_seq_length or max_length)
    return encoder


def embed(
    encoder: SentenceTransformer, texts: Sequence[str], batch_size: int
) -> NDArray[np.float32]:
    """Embed texts [n, d], not normalised."""
    if not texts:
        return np.zeros((0, encoder.get_embedding_dimension() or 0), np.float32)
    return np.asarray(
        encoder.encode(
            list(texts),
            prompt="",
            batch_size=batch_size,
            normalize_embeddings=False,
            show_progress_bar=False,
        ),
        dtype=np.float32,
    )
