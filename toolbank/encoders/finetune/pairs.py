"""Pairs of texts that are to lie near each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolbank.encoders.finetune.config import PairKind
from toolbank.encoders.finetune.texts import Rows, TrainingTexts
from toolbank.system.numbers import unsigned


def draw_pairs(texts: TrainingTexts, kinds: Sequence[PairKind], seed: int) -> Rows:
    """Positions [n_pairs, 2] of an anchor, always a query, and of its positive.

    One a use: for query-query another query of the tool, drawn at random, and none where
    there is no other; for query-description the tool's description.
    """
    queries, places = np.nonzero(texts.tools[: texts.n_queries] >= 0)
    tools = texts.tools[queries, places]
    parts = [np.zeros((0, 2), np.int64)]
    if "query-query" in kinds:
        parts.append(
            _draw_partners(queries, tools, np.random.default_rng(unsigned(seed)))
        )
    if "query-description" in kinds:
        parts.append(np.stack([queries, texts.n_queries + tools], axis=1))
    return np.concatenate(parts)


def _draw_partners(queries: Rows, tools: Rows, random: np.random.Generator) -> Rows:
    """For each use another query of the same tool."""
    order = np.argsort(tools, kind="stable")
    queries, tools = queries[order], tools[order]
    _, starts, sizes = np.unique(tools, return_index=True, return_counts=True)
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    own = np.arange(len(tools)) - start
    # The other places of the tool's block are those from 1 to size - 1 after the own one.
    step = 1 + np.floor(random.random(len(tools)) * (size - 1)).astype(np.int64)
    partners = queries[start + (own + step) % size]
    pairs = np.stack([queries, partners], axis=1)
    return pairs[size > 1]
