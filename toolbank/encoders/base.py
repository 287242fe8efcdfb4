"""The base of every encoder: text to unit vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.config import EncoderConfig, Precision
from toolbank.system.errors import InputError
from toolbank.system.numbers import unsigned

Embedded = Generator[tuple[int, NDArray[np.float32]]]
"""The number and the vectors of each batch, in any order."""

_SHOW_PROGRESS_FROM = 2_000
# Starting workers takes as long as embedding one or two thousand texts.
_SHARE_FROM = 4_000


class Encoder(ABC):
    """Embed queries and descriptions, and remember the vectors of recent texts.

    Several retrievers of a run encode the same texts, so each text is embedded once. Threads may
    share an encoder. A kind is a subclass with `read`, `dimension` and `embed`.
    """

    remembered: ClassVar[int] = 50_000
    """The number of vectors that are remembered."""

    def __init__(self, config: EncoderConfig) -> None:
        self.config = config
        # Embeds many batches elsewhere. None for an encoder made in this process, as by a
        # fine-tuning, which no other process could read.
        self.embed_elsewhere: Callable[[Encoder, list[list[str]]], Embedded] | None = (
            None
        )
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._remembering = Lock()

    @classmethod
    @abstractmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the encoder of these settings; `name` is that of its model, or its folder.

        Raises:
            InputError: there is no such model, or it cannot be downloaded or read.
        """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length of a vector."""

    @abstractmethod
    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts of about the same length as one batch: unit vectors [n, dimension]."""

    def settings_in_pack(self) -> EncoderConfig | None:
        """Return its settings for a pack that needs no files of it; None where it is exported."""
        return None

    def export(self, folder: Path, precision: Precision) -> None:  # noqa: ARG002
        """Write the encoder for `OnnxEncoder`, which runs without torch.

        Raises:
            InputError: this kind has no such form.
        """
        raise InputError(
            f"{self.config.label}: an encoder of type {self.config.type} cannot be packed. Use one "
            "of type sentence."
        )

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed queries with their prefix: unit vectors [n, dimension]."""
        return self._encode([self.config.as_query(text) for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed descriptions with their prefix: unit vectors [n, dimension]."""
        return self._encode([self.config.as_document(text) for text in texts])

    def of_width(self, width: int) -> Self:
        """Return itself if its vectors have the length of saved ones.

        Raises:
            InputError: they have another length.
        """
        if self.dimension != width:
            raise InputError(
                f"The model {self.config.label} gives {self.dimension} numbers, the saved "
                f"vectors have {width}: another model made them. Use that one, or fit again: "
                "toolbank train RUN."
            )
        return self

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        # Another thread may drop vectors meanwhile.
        with self._remembering:
            found = {t: self._vectors[t] for t in texts if t in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            vectors = dict(zip(new, self._encode_new(new), strict=True))
            self._remember(vectors)
            found |= vectors
        return np.stack([found[text] for text in texts])

    def _encode_new(self, texts: list[str]) -> NDArray[np.float32]:
        # By length, so a batch has little padding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        size = self.config.batch_size
        places = [order[start : start + size] for start in range(0, len(order), size)]
        batches = [[texts[i] for i in batch] for batch in places]
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        with closing(self._embed_batches(batches)) as embedded:
            shown: Iterable[tuple[int, NDArray[np.float32]]] = embedded
            if len(texts) >= _SHOW_PROGRESS_FROM:
                from tqdm import tqdm

                n = len(batches)
                shown = tqdm(embedded, "encode", n, unit="batch", disable=None)
            for number, found in shown:
                vectors[places[number]] = found
        return vectors

    def _embed_batches(self, batches: list[list[str]]) -> Embedded:
        if self.embed_elsewhere and sum(map(len, batches)) >= _SHARE_FROM:
            yield from self.embed_elsewhere(self, batches)
        else:
            for number, batch in enumerate(batches):
                yield number, self.embed(batch)

    def _remember(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        with self._remembering:
            self._vectors.update(vectors)
            surplus = len(self._vectors) - self.remembered
            for text in list(self._vectors)[: max(surplus, 0)]:
                del self._vectors[text]


def cluster(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.int64]:
    """Cluster vectors [n, d] by k-means, the best of ten starts; numbers [n] from 0.

    There are `count` clusters, or fewer if fewer vectors differ. The seed fixes the result.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    count = min(count, len(np.unique(vectors, axis=0)))
    means = KMeans(count, n_init=10, random_state=unsigned(seed, bits=32))
    # Several threads add up sums in no fixed order.
    with threadpool_limits(1):
        return np.asarray(means.fit_predict(vectors), np.int64)
