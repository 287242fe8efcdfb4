"""Text to unit vectors, by the hidden states of a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder, EncoderConfig
from toolbank.encoders.layers.config import LayersConfig
from toolbank.encoders.layers.pooling import pool
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.encoders.layers.model import LanguageModel


class LayersEncoder(Encoder):
    """One layer's states, pooled over the tokens of a text."""

    config: LayersConfig

    def __init__(self, model: LanguageModel, config: LayersConfig) -> None:
        super().__init__(config)
        self._model = model

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the model, of a name or a folder.

        Raises:
            InputError: there is none, or it lacks the layer or the mask that is asked for.
        """
        from toolbank.encoders.layers.model import read_language_model

        assert isinstance(config, LayersConfig)
        model = read_language_model(name, config.layer)
        if config.pooling == "mask" and not model.mask_token:
            raise InputError(
                f"encoder.pooling: {name} was not trained to guess masks. Give mean or last."
            )
        return cls(model, config)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._model.dimension

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors [n, dimension] of texts, each in the prompt.

        Raises:
            InputError: the prompt alone is too long, or a text has no mask that is asked for.
        """
        config = self.config
        is_mask = config.pooling == "mask"
        prompt = (
            f"{config.prompt} {self._model.mask_token}" if is_mask else config.prompt
        )
        tokens = self._model.tokenize(texts, prompt, config.max_length)
        states, mask = self._model.states(tokens)
        if is_mask:
            mask = self._model.find_masks(tokens)
        vectors = pool(states[config.layer], mask, config.pooling).cpu().numpy()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
