"""The tool vectors of the fitted retrievers, and the embeddings of requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.encoders.config import EncoderConfig
from toolbank.report.content import Content
from toolbank.retrievers import RETRIEVERS, load_retriever
from toolbank.retrievers.dense import subtract_common

if TYPE_CHECKING:
    from toolbank.retrievers.dense import DenseRetriever

Vectors = NDArray[np.float32]

MADE_OF = ("requests", "descriptions")
"""What tool vectors are made from."""

_RANDOM_TOOLS = 10
_MOST_QUERIES = 600


@dataclass(frozen=True)
class Cosines:
    """Cosines of test queries with their own tools, and with random tools.

    `separation` is the area under the ROC curve: the chance that one of the first is above one of
    the second, with ties counted half.
    """

    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    separation: float


@dataclass(frozen=True)
class ToolVectors:
    """A retriever's unit vectors of tools [n_tools, d], and the mean it removes from a request [d]."""

    label: str
    tools: Vectors
    common: Vectors

    def project(self, queries: Vectors) -> Vectors:
        """Remove the mean from requests; gives unit vectors [n, d] in the space of the tools."""
        return subtract_common(self.common, queries)

    def restore(self) -> Vectors:
        """Add the mean to the tools; gives vectors [n_tools, d] in the space of plain requests."""
        left = max(0.0, 1.0 - float(self.common @ self.common))
        return np.asarray(self.common + left**0.5 * self.tools, dtype=np.float32)


@dataclass(frozen=True)
class Space:
    """Vectors of one `encoder`: those of tools, by one or both of `MADE_OF`, and queries [n, d]."""

    methods: dict[str, ToolVectors]
    queries: tuple[Query, ...]
    query_vectors: Vectors
    encoder: str = ""


def read_space(content: Content) -> Space | None:
    """Read the fitted dense retrievers, and embed the queries.

    Used are the first retriever with vectors made from requests, and the first with those of
    descriptions; the second only if both have the same encoder and so share a space. None if no
    such retriever was fitted on the tools of the bank, or there are no queries.

    Raises:
        InputError: a file is damaged, or the encoder is not available.
    """
    from toolbank.encoders import load_encoder

    found: dict[str, tuple[EncoderConfig, ToolVectors]] = {}
    for folder in content.model_folders():
        retriever = _load_dense(folder, content.bank)
        if retriever is not None:
            made_of = MADE_OF[0 if retriever.unseen is not None else 1]
            vectors = ToolVectors(
                retriever.name, retriever.vectors, retriever.query_mean
            )
            found.setdefault(made_of, (retriever.encoder.config, vectors))
    if not found or not content.bank.queries:
        return None
    config = next(found[part][0] for part in MADE_OF if part in found)
    methods = {
        part: found[part][1]
        for part in MADE_OF
        if part in found and found[part][0] == config
    }
    queries = _sample_queries(content)
    encoded = load_encoder(config).encode_queries([query.query for query in queries])
    if any(m.tools.shape[1] != encoded.shape[1] for m in methods.values()):
        return None
    return Space(methods, queries, encoded, config.label)


def compare_cosines(space: Space, bank: Bank, method: str, seed: int) -> Cosines | None:
    """Compute the cosines of test queries, with ten random tools per query.

    None if no test query has a tool of the bank.
    """
    from sklearn.metrics import roc_auc_score

    positive: list[float] = []
    negative: list[float] = []
    random = Random(f"{seed}:report:cosines")
    vectors = space.methods[method]
    requests = vectors.project(space.query_vectors)
    for query, request in zip(space.queries, requests, strict=True):
        own = sorted({bank.index[name] for name in query.tools if name in bank.index})
        if query.split != "test" or not own:
            continue
        others = [i for i in range(len(bank.tools)) if i not in own]
        drawn = random.sample(others, min(_RANDOM_TOOLS, len(others)))
        cosines = vectors.tools @ request
        positive += cosines[own].tolist()
        negative += cosines[drawn].tolist()
    if not positive or not negative:
        return None
    is_own = [True] * len(positive) + [False] * len(negative)
    separation = float(roc_auc_score(is_own, positive + negative))
    return Cosines(np.array(positive), np.array(negative), separation)


def _load_dense(folder: Path, bank: Bank) -> DenseRetriever | None:
    """Load the retriever of a folder if it has vectors of the bank's tools."""
    from toolbank.retrievers.base import read_settings, read_tools
    from toolbank.retrievers.dense import DenseRetriever

    kind = RETRIEVERS.find(read_settings(folder)["type"], str(folder))
    if not kind.config.has_vectors or read_tools(folder) != bank.tool_names:
        return None
    retriever = load_retriever(folder)
    return retriever if isinstance(retriever, DenseRetriever) else None


def _sample_queries(content: Content) -> tuple[Query, ...]:
    """Sample as many queries as the map can show, those of the test split first."""
    queries = list(content.bank.queries)
    Random(f"{content.seed}:report:map").shuffle(queries)
    queries.sort(key=lambda query: query.split != "test")
    return tuple(queries[:_MOST_QUERIES])
