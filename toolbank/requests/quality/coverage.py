"""Measure how evenly requests cover the tools, and how diverse they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.encoders.base import cluster
from toolbank.requests.quality.texts import content_words, take_mean, words_of

AT_LEAST = (1, 2, 5, 10, 20)
_STEPS = 20


@dataclass(frozen=True)
class Coverage:
    """How the requests use the tools of the bank.

    `used` is the share of tools used by at least 1, 2, 5, ... requests, as of `AT_LEAST`. `gini` is
    0 if all are used equally often, and near 1 if one has all uses. `lorenz` is the share of all
    uses that the least used 0, 5, 10, ... 100 % of the tools have.
    """

    tools: int
    used: dict[int, float]
    gini: float
    lorenz: tuple[float, ...]


@dataclass(frozen=True)
class Sets:
    """The sets of tools that requests need.

    `distinct` counts different sets, `share` divides that by the requests, and `largest` is the
    share of requests with the most common set. `sizes` counts requests by number of tools, and
    `mean` is the mean number.
    """

    distinct: int
    share: float
    largest: float
    sizes: dict[int, int]
    mean: float


def measure_coverage(requests: pl.DataFrame, tools: pl.DataFrame) -> Coverage | None:
    """Measure the coverage of a bank; None if no request uses a tool."""
    used = requests.select(pl.col("tools").explode().alias("tool")).drop_nulls()
    counts = used.group_by("tool").len("uses")
    uses = (
        tools.select("tool")
        .join(counts, on="tool", how="left")
        .select(pl.col("uses").fill_null(0).cast(pl.Int64))
        .to_series()
    )
    if not uses.sum():
        return None
    return Coverage(
        tools=len(uses),
        used={n: take_mean(uses >= n) for n in AT_LEAST},
        gini=measure_gini(uses),
        lorenz=draw_lorenz(uses, _STEPS),
    )


def measure_gini(uses: pl.Series) -> float:
    """Compute the Gini coefficient of counts that are not all 0, from 0 to 1 - 1/n.

    Half the mean difference of two counts over their mean; by the sorted counts x_1 ... x_n it is
    sum((2 i - n - 1) x_i) / (n sum(x)).
    """
    n, ordered = len(uses), uses.sort().cast(pl.Float64)
    place = pl.Series(range(1, n + 1), dtype=pl.Float64)
    ranked = float(((2 * place - n - 1) * ordered).sum())
    return max(0.0, ranked / (n * float(ordered.sum())))


def draw_lorenz(uses: pl.Series, steps: int) -> tuple[float, ...]:
    """Compute the share of all uses of the least used 0, 1/steps, ... 1 of the tools."""
    summed = [0.0, *uses.sort().cast(pl.Float64).cum_sum()]
    n, whole = len(uses), summed[-1]
    shares = []
    for step in range(steps + 1):
        place = step * n / steps
        below = min(int(place), n - 1)
        part = summed[below] + (place - below) * (summed[below + 1] - summed[below])
        shares.append(part / whole)
    return tuple(shares)


def measure_sets(requests: pl.DataFrame) -> Sets | None:
    """Measure the sets of tools; None without requests."""
    if requests.is_empty():
        return None
    sets = requests.select(pl.col("tools").list.sort().list.join("\n")).to_series()
    counts = sets.value_counts()["count"].to_list()
    sizes = requests["tools"].list.len()
    return Sets(
        distinct=len(counts),
        share=len(counts) / len(sets),
        largest=max(counts) / len(sets),
        sizes={int(n): int(k) for n, k in sizes.value_counts().sort("tools").rows()},
        mean=take_mean(sizes),
    )


_TOPICS = 12
_FEWEST = 2 * _TOPICS
_NAMED_BY = 3


@dataclass(frozen=True)
class Topic:
    """A cluster of requests: its characteristic words, and the request nearest to its centre."""

    name: str
    example: str
    count: int
    share: float


@dataclass(frozen=True)
class Dispersion:
    """How diverse n requests are by the vectors of an encoder.

    `cosine` is the mean over all pairs of requests, `nearest` the mean over nearest neighbours.
    `topics` are clusters, the largest first; `effective` is the number of equal topics of the same
    diversity, the exponential of the entropy of their shares.
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
    """Measure the dispersion of texts by unit vectors [n, d]; None for fewer than 24."""
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
    """Twelve topics by k-means, or fewer if fewer vectors differ."""
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
    """The three words of each topic with the highest class-based TF-IDF, as of BERTopic.

    A word counts once per request: the share of the topic's requests with it, times
    log(1 + mean requests of a topic / requests with it) (arXiv 2203.05794, equation 2).
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
