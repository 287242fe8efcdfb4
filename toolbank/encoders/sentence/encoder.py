"""Text to unit vectors, by any sentence-transformers model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.encoder import Encoder, Precision
from toolbank.encoders.model import load_model, save_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_LONGEST = 8192
"""Tokens of a text, where the model sets no bound."""


class SentenceEncoder(Encoder):
    """A sentence encoder with its prefixes."""

    def __init__(self, model: SentenceTransformer, config: EncoderConfig) -> None:
        super().__init__(config)
        self._model = model

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the model as `load_model` does."""
        return cls(load_model(name), config)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors [n, dimension] of texts as they are."""
        vectors: Any = self._model.encode(
            texts,
            prompt="",
            batch_size=len(texts),
            show_progress_bar=False,
            normalize_embeddings=True,
        )
        return np.asarray(vectors, dtype=np.float32)

    def export(self, folder: Path, precision: Precision) -> None:
        """Write the network with its pooling and norm, and the tokenizer."""
        from toolbank.encoders.onnx.export import export_network
        from toolbank.encoders.sentence.network import TextVectors

        model: Any = self._model
        longest = min(model.max_seq_length or _LONGEST, _LONGEST)
        export_network(
            folder,
            TextVectors(model, unit=True),
            model.tokenizer,
            longest,
            self.dimension,
            precision,
        )

    def save(self, folder: Path) -> None:
        """Write the model to a folder from which it can be read as any other."""
        save_model(self._model, folder)
