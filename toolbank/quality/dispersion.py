"""How far apart requests lie by their vectors, and what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.encoders.base import cluster
from toolbank.quality.texts import content_words, words_of

_TOPICS = 12
_FEWEST = 2 * _TOPICS
_NAMED_BY = 3


@dataclass(frozen=True)
class Topic:
    """A cluster of requests: the words that set it apart, and the request nearest to its middle."""

    name: str
    example: str
    count: int
    share: float


@dataclass(frozen=True)
class Dispersion:
    """How n requests lie by the vectors of an encoder.

    `cosine` is the mean over all pairs of requests, `nearest` that of each with the one nearest to
    it. `topics` are clusters, the largest first; `effective` is how many of one size would be as
    diverse: the exponential of the entropy of their shares.
    """

    encoder: str
    n: int
    cosine: float
    nearest: float
    effective: float
    topics: tuple[Topic, ...]


def measure_dispersion(
    texts: Sequence[str], vectors: NDArray[np.float32], seed: int, encoder: str
) -> Dispersion | None:
    """The dispersion of texts by their unit vectors [n, d]; None of fewer than 24."""
    n = len(texts)
    if n < _FEWEST:
        return None
    topics = _find_topics(texts, vectors, seed)
    shares = np.array([topic.share for topic in topics])
    total = float(np.linalg.norm(vectors.sum(axis=0, dtype=np.float64)) ** 2)
    return Dispersion(
        encoder=encoder,
        n=n,
        cosine=(total - n) / (n * (n - 1)),
        nearest=_measure_nearest(vectors),
        effective=float(np.exp(-(shares * np.log(shares)).sum())),
        topics=topics,
    )


def _measure_nearest(vectors: NDArray[np.float32]) -> float:
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    return float(cosines.max(axis=1).mean(dtype=np.float64))


def _find_topics(
    texts: Sequence[str], vectors: NDArray[np.float32], seed: int
) -> tuple[Topic, ...]:
    """Twelve topics by k-means, or fewer where fewer vectors differ."""
    of = cluster(vectors, _TOPICS, seed)
    names = _name_topics(texts, of)
    topics = []
    for group in range(int(of.max()) + 1):
        places = np.flatnonzero(of == group)
        inside = vectors[places]
        nearest = places[(inside @ inside.sum(axis=0)).argmax()]
        share = len(places) / len(texts)
        topics.append(Topic(names.get(group, ""), texts[nearest], len(places), share))
    return tuple(sorted(topics, key=lambda topic: (-topic.count, topic.example)))


def _name_topics(texts: Sequence[str], of: NDArray[np.int64]) -> dict[int, str]:
    """The three words of each topic that weigh most by class-based TF-IDF, as of BERTopic.

    A word counts once a request: the share of the topic's requests that say it, times
    log(1 + mean requests of a topic / requests that say it) (arXiv 2203.05794, equation 2).
    """
    rows = (
        pl.DataFrame({"text": texts, "topic": of})
        .with_columns(word=content_words(words_of(pl.col("text"))))
        .explode("word")
        .filter(pl.col("word").str.contains(r"^\p{Alphabetic}{2,}$"))
    )
    mean = len(texts) / (int(of.max()) + 1)
    everywhere = rows.group_by("word").len("everywhere")
    sizes = pl.DataFrame({"topic": of}).group_by("topic").len("size")
    weight = pl.col("len") / pl.col("size") * (1 + mean / pl.col("everywhere")).log()
    named = (
        rows.group_by("topic", "word")
        .len()
        .join(everywhere, on="word")
        .join(sizes, on="topic")
        .with_columns(weight=weight.round(9))
        .sort(["weight", "word"], descending=[True, False])
        .group_by("topic", maintain_order=True)
        .head(_NAMED_BY)
        .group_by("topic", maintain_order=True)
        .agg(pl.col("word").str.join(", "))
    )
    return {int(topic): str(name) for topic, name in named.iter_rows()}
