"""The texts of a fine-tuning, and which tools each of them is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.sentence.config import SentenceConfig

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class TrainingTexts:
    """Queries and, behind them, the tools' descriptions; each behind its prefix.

    `tools` [n_texts, most] are the indices of the tools that each text is about, padded with
    -1: those that a query uses, the one that a description describes. `related` [n_texts, more]
    are these and the tools that would serve in their place: texts that have one in common are no
    negatives of each other.
    """

    texts: tuple[str, ...]
    tools: Rows
    related: Rows
    n_queries: int

    @property
    def n_tools(self) -> int:
        """How many descriptions there are."""
        return len(self.texts) - self.n_queries


def make_texts(
    encoder: SentenceConfig,
    queries: Sequence[str],
    uses: Rows,
    documents: Sequence[str],
    spared: Rows | None = None,
) -> TrainingTexts:
    """Put prefixes before queries and documents.

    `uses` [n_queries, most] and `spared` [n_queries, any], tools that would serve in place of
    those, are padded with -1.
    """
    tools = np.full(
        (len(queries) + len(documents), max(uses.shape[1], 1)), -1, np.int64
    )
    tools[: len(queries), : uses.shape[1]] = uses
    tools[len(queries) :, 0] = np.arange(len(documents))
    texts = (
        *(encoder.query_prefix + text for text in queries),
        *(encoder.document_prefix + text for text in documents),
    )
    related = tools
    if spared is not None and spared.size:
        more = np.full((len(tools), spared.shape[1]), -1, np.int64)
        more[: len(queries)] = spared
        related = np.concatenate([tools, more], axis=1)
    return TrainingTexts(texts, tools, related, len(queries))


def share_tool(left: Rows, right: Rows) -> NDArray[np.bool_]:
    """Whether texts are about a tool in common: [n, m] of tools [n, most] and [m, most]."""
    tools = np.unique(left[left >= 0])
    return np.asarray(_mark(left, tools) @ _mark(right, tools).T > 0)


def _mark(rows: Rows, tools: Rows) -> NDArray[np.float32]:
    """Ones [n, n_tools] where a text is about one of the tools, which are in order."""
    row, place = np.nonzero(np.isin(rows, tools))
    marks = np.zeros((len(rows), len(tools)), np.float32)
    marks[row, np.searchsorted(tools, rows[row, place])] = 1
    return marks
