"""Score fusion: what retrievers find for different reasons, found by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, rank_blocks
from toolbank.retrievers.base import ALONE, FitContext
from toolbank.retrievers.settings import FusionConfig
from toolbank.retrievers.two_stage import TwoStage
from toolbank.retrievers.unseen import mark_uses


class FusionRetriever(TwoStage):
    """The mean of several retrievers' scores, each standardised over its first hits.

    A convex combination of normalised scores (hybrid search, arXiv 2210.11934), with the z-score as
    norm. A tool that is not among a retriever's first hits has the score of the last of them.
    """

    config: FusionConfig

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Take the retrievers; nothing is trained."""
        self.take_stages(context.fitted)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A tool that is not among a retriever's first `candidates` hits comes last; a tool that is
        not among the top k of any retriever is no hit.
        """
        n_tools, first = len(self.tools), self.config.candidates
        hits = [s.search(queries, max(first, k)) for s in self.stages.values()]

        def score(rows: slice) -> NDArray[np.float32]:
            parts = [
                standardise((i[rows, :first], s[rows, :first]), n_tools)
                for i, s in hits
            ]
            found = np.max([mark_uses(i[rows], n_tools) for i, _ in hits], axis=0)
            means = np.round(np.mean(parts, axis=0), 6).astype(np.float32)
            return np.where(found, means, np.float32(-np.inf))

        indices, scores = rank_blocks(score, self.draw_ties(queries), k)
        return np.where(np.isinf(scores), -1, indices), scores


def standardise(hits: Hits, n_tools: int) -> NDArray[np.float64]:
    """Scores [n, n_tools] in standard deviations above the mean of the request's hits.

    A tool that is no hit has the score of the last hit. If there are fewer hits than requested,
    the other tools count as hits with score 0, or the score of the last hit if that is lower.
    """
    indices, scores = hits
    real, width = indices >= 0, max(indices.shape[1], 1)
    floor = np.where(real, scores, 0).min(axis=1, initial=0, keepdims=True)
    spread = np.where(real, scores, floor).astype(np.float64)
    spread -= spread.sum(axis=1, keepdims=True) / width
    spread /= np.sqrt((spread**2).sum(axis=1, keepdims=True) / width + 1e-12)
    last = spread.min(axis=1, initial=0, keepdims=True)
    # The last column takes the padding and is cut off.
    every = np.repeat(last, n_tools + 1, axis=1)
    np.put_along_axis(every, indices, spread, axis=1)
    return every[:, :n_tools]
