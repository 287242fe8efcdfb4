"""Retrievers by the cosine of embeddings, exact or by an approximate index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, Ties, search_vectors, top_k
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder
from toolbank.encoders.location import TUNED, locate
from toolbank.encoders.model import SentenceEncoder, find_model, read_modules
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.base import (
    ALONE,
    FitContext,
    Packing,
    Retriever,
    full_text,
    title_and_summary,
)
from toolbank.retrievers.kind import DenseConfig
from toolbank.retrievers.relevance import (
    train_relevance,
    validation_queries,
    validation_recall,
)
from toolbank.retrievers.settings import DescriptionsConfig
from toolbank.retrievers.stored import Arrays, floats
from toolbank.system.errors import InputError
from toolbank.training.card import make_card

EXACT = 100_000
"""Up to as many vectors all are compared: that takes under 10 ms."""
_FILE = "vectors.usearch"
_MORE = 4
_DEEPEST = 250
_PART = 1_000
# HNSW (arXiv 1603.09320): M, and how many are looked at when it is made and when it is searched.
_CONNECTIVITY, _EFFORT_MADE, _EFFORT = 16, 256, 512


class VectorIndex:
    """HNSW over vectors in 8 bits, memory-mapped from a file; threads may share it.

    It returns four candidates per hit, which are ranked by their exact cosines.
    """

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def read(cls, folder: Path, shape: tuple[int, ...]) -> Self | None:
        """Load the index that `write_index` wrote; None if there is none.

        Raises:
            InputError: it is damaged, or of other vectors than those of a shape [n, d].
            ImportError: usearch is not installed.
        """
        path = folder / _FILE
        if not path.is_file():
            return None
        from usearch.index import Index

        try:
            index = Index.restore(str(path), view=True, expansion_search=_EFFORT)
            if index is None or (len(index), index.ndim) != shape:
                raise ValueError("of other vectors")
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{path}: damaged ({error}). Pack it again.") from error
        return cls(index)

    @staticmethod
    def reaches(k: int) -> bool:
        """Whether it can find k hits; more are searched for exactly."""
        return k * _MORE <= _DEEPEST

    def search(
        self,
        queries: NDArray[np.float32],
        vectors: NDArray[np.float32],
        ties: Ties,
        k: int,
    ) -> Hits:
        """Find the approximately k nearest of `vectors` [m, d] to `queries` [n, d]."""
        found = [self._index.search(query, k * _MORE).keys for query in queries]
        least = min(map(len, found), default=0)
        candidates = np.stack([one[:least] for one in found]).astype(np.int64)
        cosines = np.einsum("nmd,nd->nm", vectors[candidates], queries)
        places, scores = top_k(
            np.round(cosines, 6).astype(np.float32), k, ties.order_of(candidates)
        )
        return np.take_along_axis(candidates, places, axis=1), scores


def write_index(vectors: NDArray[np.float32], folder: Path, exact: int = EXACT) -> None:
    """Write an index of unit vectors [n, d], if there are more than `exact`.

    One thread keeps the result deterministic.
    """
    if len(vectors) <= exact:
        return
    from tqdm import tqdm
    from usearch.index import Index

    folder.mkdir(parents=True, exist_ok=True)
    index = Index(
        ndim=vectors.shape[1],
        metric="ip",
        dtype="i8",
        connectivity=_CONNECTIVITY,
        expansion_add=_EFFORT_MADE,
    )
    with tqdm(total=len(vectors), desc="index", unit="vector", disable=None) as bar:
        for start in range(0, len(vectors), _PART):
            part = vectors[start : start + _PART]
            index.add(np.arange(start, start + len(part)), part, threads=1)
            bar.update(len(part))
    index.save(str(folder / _FILE))


class DenseRetriever(Retriever):
    """Cosines between a request and the unit vectors of tools, `vectors` [n_tools, d].

    With `training`, the encoder is fine-tuned on the train queries first, and saved with the
    retriever. A method describes itself in `summary`, embeds tools in `embed_bank`, and searches
    for unseen train queries in `search_held_out`.
    """

    config: DenseConfig
    vectors: NDArray[np.float32]

    arrays: ClassVar[Arrays] = {"vectors": floats("tools", "width")}
    summary: ClassVar[str]
    tuned: SentenceEncoder | None = None
    """The fine-tuned encoder, if it was."""
    index: VectorIndex | None = None
    """Of `vectors`, where it was packed and they are many."""

    @property
    def unseen(self) -> NDArray[np.bool_] | None:
        """Which tools [n_tools] no train query uses; None if that makes no difference.

        Their `vectors` and cosines are of another kind; `search` brings them to one scale.
        """
        return None

    @property
    def query_mean(self) -> NDArray[np.float32]:
        """The vector [d] that is subtracted from every request; zeros by default."""
        return np.zeros(self.vectors.shape[1], np.float32)

    def check_encoder(self) -> None:
        """Refuse a training of an encoder that has no tokens, or none that can be split up."""
        training = self.config.training
        if training is None:
            return
        folder = find_model(locate(self._trainable))
        first = next((one["type"] for one in read_modules(folder)), "Transformer")
        if first.endswith("StaticEmbedding") and training.mini_batch:
            raise InputError(
                f"{self.name}.training.mini_batch: {folder} is a static embedding, whose texts "
                "take little memory. Remove `mini_batch`."
            )
        if not first.endswith(("Transformer", "StaticEmbedding")):
            raise InputError(
                f"{self.name}.training: {folder} begins with {first}, which cannot be fine-tuned. "
                "Remove `training`, or choose another model, such as all-MiniLM-L6-v2."
            )

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Fine-tune the encoder, if configured, and embed the tools.

        Raises:
            InputError: no pair can be made of the queries, or the encoder cannot be trained.
        """
        self.tools, self.card, self.tuned = bank.tool_names, "", None
        if self.config.training is not None:
            self._fine_tune(bank, context)
        self.embed_bank(bank)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Return held-out hits for every train query.

        With `training`, encoders are fine-tuned on a part of the queries each.
        """
        if self.config.training is not None:
            return super().search_train(bank, k, context)
        return self.search_held_out(bank, k)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add vectors of descriptions, and drop the index, which lacks them."""
        self.vectors = np.concatenate([self.vectors, self.embed_tools(tools)])
        self.index = None

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some vectors, and drop the index, which has others."""
        super().keep(rows)
        self.index = None

    @abstractmethod
    def embed_bank(self, bank: Bank) -> None:
        """Embed the bank's tools into `vectors`."""

    @abstractmethod
    def search_held_out(self, bank: Bank, k: int) -> Hits:
        """Return hits for every train query by an encoder that was not trained on any."""

    @abstractmethod
    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Return vectors of each train query's own tools, made without that query.

        [n_train, most, d], parallel to `train_relevance(bank).tools`; zeros for padding. A second
        stage reads these while it is trained on the query. A fine-tuned encoder has still seen it.
        """

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Embed requests as unit vectors [n, d], in the space of `vectors`.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        return self.encoder.of_width(self.vectors.shape[1]).encode_queries(queries)

    def embed_train(self, bank: Bank) -> NDArray[np.float32]:
        """Embed the bank's train queries as unit vectors [n_train, d]."""
        return self.embed([query.query for query in bank.train_queries])

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Embed the descriptions of tools as unit vectors [n, d].

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = self.encoder.of_width(self.vectors.shape[1])
        return encoder.encode_documents(self.read(tools))

    def read(self, tools: Sequence[Tool]) -> list[str]:
        """Return the texts that are embedded for tools."""
        return [title_and_summary(tool) for tool in tools]

    @property
    def encoder(self) -> Encoder:
        """The encoder of requests and tools."""
        return self.tuned or load_encoder(self.config.encoder)

    def save_parts(self, folder: Path) -> None:
        """Write the fine-tuned encoder; a frozen one is named, not copied."""
        if self.tuned is not None:
            self.tuned.save(Path(self._saved(folder).model))

    def pack_config(self, folder: Path, packing: Packing) -> DenseConfig:
        """Write the encoder as ONNX, and return the settings that name it."""
        encoder = packing.write_encoder(self.encoder, folder)
        return self.config.model_copy(update={"encoder": encoder, "training": None})

    def pack_parts(self, folder: Path, packing: Packing) -> None:  # noqa: ARG002
        """Write an index of the vectors if there are many."""
        write_index(self.vectors, folder)

    def load_parts(self, folder: Path) -> None:
        """Load the fine-tuned encoder, and the index of the vectors.

        Raises:
            InputError: one is missing or damaged.
        """
        self.index = VectorIndex.read(folder, self.vectors.shape)
        if self.config.training is not None:
            tuned = load_encoder(self._saved(folder))
            assert isinstance(tuned, SentenceEncoder)
            self.tuned = tuned

    @property
    def _trainable(self) -> SentenceConfig:
        """The settings of its encoder; `DenseConfig` refuses a training of any other type."""
        config = self.config.encoder
        assert isinstance(config, SentenceConfig)
        return config

    def _saved(self, folder: Path) -> SentenceConfig:
        place = {"model": str(folder.resolve() / TUNED), "run": None, "retriever": ""}
        return self._trainable.model_copy(update=place)

    def _fine_tune(self, bank: Bank, context: FitContext) -> None:
        from toolbank.encoders.finetune import fine_tune
        from toolbank.encoders.finetune_data import make_texts

        config, training = self._trainable, self.config.training
        assert training is not None

        def validate(encoder: SentenceEncoder) -> float:
            self.tuned = encoder
            self.embed_bank(bank)
            return validation_recall(self.search, bank)

        relevance = train_relevance(bank)
        self.tuned, trained, counts = fine_tune(
            config,
            training,
            make_texts(
                config,
                relevance.queries,
                relevance.tools,
                self.read(bank.tools),
                relevance.spared,
            ),
            context,
            validate if validation_queries(bank) else None,
            self.name,
        )
        self.card = make_card(
            self.config,
            method=self.summary,
            counts=counts,
            trainings={"encoder": trained},
        )


_PSEUDO_TEXTS = 20


def common_part(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean [d] of unit vectors [n, d], as if 20 more were zero.

    So a handful of queries does not count as representative.
    """
    total = vectors.sum(axis=0, dtype=np.float64)
    return np.asarray(total / (len(vectors) + _PSEUDO_TEXTS), dtype=np.float32)


def subtract_common(
    common: NDArray[np.float32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Subtract `common` [d] from unit vectors [n, d], and normalise them again."""
    rest = vectors - common
    lengths = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.asarray(rest / np.maximum(lengths, 1e-9), dtype=np.float32)


_TEXTS = {"summary": title_and_summary, "full": full_text}


class DescriptionsRetriever(DenseRetriever):
    """Cosine between a request and each tool's name and summary, or all of its description.

    With `training`, the encoder is fine-tuned on the train queries and their tools' texts: the
    dense retriever of ToolBench (arXiv 2307.16789, section 3.2).
    """

    config: DescriptionsConfig

    summary = (
        "A sentence encoder fine-tuned on requests and the descriptions of the tools that they "
        "use: cosine between a request and a tool's description."
    )

    def embed_bank(self, bank: Bank) -> None:
        """Embed the tools' texts; queries are not used."""
        self.vectors = self.encoder.encode_documents(self.read(bank.tools))

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        vectors, ties = self.embed(queries), self.draw_ties(queries)
        if self.index is not None and self.index.reaches(k):
            return self.index.search(vectors, self.vectors, ties, k)
        return search_vectors(vectors, self.vectors, ties, k)

    def search_held_out(self, bank: Bank, k: int) -> Hits:
        """Hits for every train query, of which none was seen."""
        ties = self.draw_ties(train_relevance(bank).queries)
        return search_vectors(self.embed_train(bank), self.vectors, ties, k)

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors [n_train, most, d] of each train query's own tools; zeros where padded.

        They are those of `vectors`: a tool's vector is of its text alone.
        """
        tools = train_relevance(bank).tools
        return np.where(tools[:, :, None] >= 0, self.vectors[tools], np.float32(0))

    def read(self, tools: Sequence[Tool]) -> list[str]:
        """The tools' texts, short or full."""
        return [_TEXTS[self.config.text](tool) for tool in tools]
