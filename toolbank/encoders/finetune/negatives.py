"""Negatives of pairs: texts that share no tool with the anchor, random or the nearest ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import blocks, top_k
from toolbank.encoders.finetune.texts import Rows, TrainingTexts, share_tool
from toolbank.system.numbers import unsigned

_ROUNDS = 30


def draw_negatives(texts: TrainingTexts, pairs: Rows, seed: int) -> Rows:
    """A random negative a pair [n_pairs], of the same kind as the positive.

    Where there is none it is the positive itself.
    """
    random = np.random.default_rng([unsigned(seed), 1])
    negatives = pairs[:, 1].copy()
    start, count = _pool(texts, pairs)
    left = np.arange(len(pairs))
    for _ in range(_ROUNDS):
        drawn = start[left] + np.floor(random.random(len(left)) * count[left]).astype(
            np.int64
        )
        fits = ~_shares(texts.related[pairs[left, 0]], texts.related[drawn])
        negatives[left[fits]] = drawn[fits]
        left = left[~fits]
    # What is left uses tools that nearly all others use: look through them all.
    for row in left:
        pool = np.arange(start[row], start[row] + count[row])
        fits = ~share_tool(texts.related[pairs[row, :1]], texts.related[pool])[0]
        if fits.any():
            negatives[row] = random.choice(pool[fits])
    return negatives


def mine_negatives(
    texts: TrainingTexts, pairs: Rows, vectors: NDArray[np.float32], count: int
) -> Rows:
    """The `count` nearest negatives of each pair's anchor [n_pairs, count], the nearest first.

    `vectors` [n_texts, d] are unit vectors of all texts. Negatives are of the same kind as the
    positive. Where there are fewer, the positive itself fills the row up.
    """
    negatives = np.repeat(pairs[:, 1:], count, axis=1)
    is_query = pairs[:, 1] < texts.n_queries
    halves = (
        (is_query, slice(0, texts.n_queries)),
        (~is_query, slice(texts.n_queries, None)),
    )
    for chosen, pool in halves:
        rows = np.flatnonzero(chosen)
        related, candidates = texts.related[pool], vectors[pool]
        most = min(count, len(candidates))
        for part in blocks(len(rows), len(candidates)):
            block = rows[part]
            anchors = pairs[block, 0]
            cosines = vectors[anchors] @ candidates.T
            cosines[share_tool(texts.related[anchors], related)] = -np.inf
            best, nearness = top_k(cosines, most)
            negatives[block, :most] = np.where(
                np.isfinite(nearness),
                best + (pool.start or 0),
                negatives[block, :most],
            )
    return negatives


def _pool(texts: TrainingTexts, pairs: Rows) -> tuple[Rows, Rows]:
    """Where the texts of each positive's kind start, and how many they are."""
    is_query = pairs[:, 1] < texts.n_queries
    return (
        np.where(is_query, 0, texts.n_queries),
        np.where(is_query, texts.n_queries, texts.n_tools),
    )


def _shares(left: Rows, right: Rows) -> NDArray[np.bool_]:
    """Row by row, whether two texts share a tool: [n] of tools [n, most] both."""
    same = (left[:, :, None] == right[:, None, :]) & (left[:, :, None] >= 0)
    return np.asarray(same.any(axis=(1, 2)))
