"""Instructions as vectors, in a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders import load_encoder
from toolbank.encoders.layers.config import LayersConfig, Pooling

_MAX_LENGTH = 128


def embed(
    model: str, prompt: str, pooling: Pooling, instructions: Sequence[str]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] of instructions, of the last layer of any language model.

    Raises:
        InputError: the model can't be had or read.
    """
    config = LayersConfig(
        type="layers",
        model=model,
        pooling=pooling,
        prompt=prompt,
        max_length=_MAX_LENGTH,
        batch_size=64,
    )
    return load_encoder(config).encode_queries(instructions)
