"""The pooled states of all layers of a model, from one pass over the texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.layers.config import Pooling
from toolbank.encoders.layers.model import LanguageModel
from toolbank.encoders.layers.pooling import pool

_KEPT: tuple[Pooling, ...] = ("mean", "last")


@dataclass(frozen=True)
class PooledStates:
    """Of n texts, the means and the last ones of each layer's states [layers + 1, n, d].

    `tokens` [n] are how many tokens each text has. The arrays lie on disk: those of a language
    model may be larger than memory.
    """

    means: NDArray[np.float32]
    lasts: NDArray[np.float32]
    tokens: NDArray[np.int64]

    def vectors(self, layer: int, pooling: Pooling) -> NDArray[np.float32]:
        """The vectors [n, d] of one layer, as long as they come out."""
        if pooling == "last":
            return np.array(self.lasts[layer])
        means = np.array(self.means[layer])
        if pooling == "mean":
            return means
        return np.asarray(means * self.tokens[:, None], dtype=np.float32)


def pool_layers(
    model: LanguageModel,
    texts: Sequence[str],
    prompt: str,
    folder: Path,
    *,
    batch_size: int,
    max_length: int,
) -> PooledStates:
    """Read each text once, in the prompt, and pool the states of every layer.

    The arrays are written to files in `folder`, which has to stay while they are used.

    Raises:
        InputError: the prompt alone is too long.
    """
    from tqdm import tqdm

    tokens = model.tokenize(texts, prompt, max_length)
    shape = (model.layers + 1, len(texts), model.dimension)
    kept = {
        pooling: np.memmap(folder / pooling, mode="w+", dtype=np.float32, shape=shape)
        for pooling in _KEPT
    }
    # Of about one length, so that a batch holds little padding.
    order = sorted(range(len(texts)), key=lambda i: len(tokens[i]), reverse=True)
    with tqdm(total=len(texts), desc="read", unit="text", disable=None) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            layers, mask = model.states([tokens[i] for i in batch])
            for layer, states in enumerate(layers):
                for pooling, array in kept.items():
                    array[layer, batch] = pool(states, mask, pooling).cpu().numpy()
            bar.update(len(batch))
    lengths = np.array([len(found) for found in tokens], np.int64)
    return PooledStates(kept["mean"], kept["last"], lengths)
