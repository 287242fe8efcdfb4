"""Text to unit vectors, by any sentence-transformers model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.locate import locate
from toolbank.encoders.model import load_model, save_model
from toolbank.encoders.resolve import Stamp, find_folder, stamp_files
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_REMEMBERED = 50_000
_SHOW_PROGRESS_FROM = 2_000
_KEPT = 3
_LOADING = Lock()


class Encoder:
    """A sentence encoder with its prefixes; remembers the vectors of recent texts.

    A run encodes the same texts for several retrievers, so each is encoded once. Threads may
    share one.
    """

    def __init__(self, model: SentenceTransformer, config: EncoderConfig) -> None:
        self.config = config
        self._model = model
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._remembering = Lock()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, dimension] of requests, each behind the query prefix."""
        return self._encode([self.config.query_prefix + text for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, dimension] of descriptions, each behind the document prefix."""
        return self._encode([self.config.document_prefix + text for text in texts])

    def of_width(self, width: int) -> Self:
        """Itself, if what it encodes can be compared with saved vectors of that length.

        Raises:
            InputError: `width` is not that of its vectors.
        """
        if self.dimension != width:
            raise InputError(
                f"The model {self.config.label} gives {self.dimension} numbers, the saved "
                f"vectors have {width}; it is not the one that they were made with. Name that "
                "one, or fit again: toolbank train RUN."
            )
        return self

    def save(self, folder: Path) -> None:
        """Write the model to a folder from which it can be read as any other."""
        save_model(self._model, folder)

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        # Another thread may forget meanwhile what is known here.
        with self._remembering:
            found = {t: self._vectors[t] for t in texts if t in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            vectors = dict(zip(new, self._encode_new(new), strict=True))
            self._remember(vectors)
            found |= vectors
        return np.stack([found[text] for text in texts])

    def _encode_new(self, texts: list[str]) -> NDArray[np.float32]:
        from tqdm import tqdm

        # In order of length, so that a batch holds little padding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        quiet = True if len(texts) < _SHOW_PROGRESS_FROM else None
        size = self.config.batch_size
        with tqdm(total=len(texts), desc="encode", unit="text", disable=quiet) as bar:
            for start in range(0, len(order), size):
                batch = order[start : start + size]
                vectors[batch] = self._model.encode(
                    [texts[i] for i in batch],
                    prompt="",
                    batch_size=size,
                    show_progress_bar=False,
                    normalize_embeddings=True,
                )
                bar.update(len(batch))
        return vectors

    def _remember(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        with self._remembering:
            self._vectors.update(vectors)
            surplus = len(self._vectors) - _REMEMBERED
            for text in list(self._vectors)[: max(surplus, 0)]:
                del self._vectors[text]


def load_encoder(config: EncoderConfig) -> Encoder:
    """The encoder of a configuration; asked again for the same one, the same object.

    A folder whose files were written anew is read anew.

    Raises:
        InputError: there is no such model, or it can't be had or read.
    """
    name = locate(config)
    folder = find_folder(name)
    # Threads that begin at once read it once.
    with _LOADING:
        return _load(name, config, stamp_files(folder) if folder else ())


@lru_cache(maxsize=_KEPT)
def _load(name: str, config: EncoderConfig, _: tuple[Stamp, ...]) -> Encoder:
    return Encoder(load_model(name), config)
