"""The texts, pairs and negatives of a fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import blocks, top_k
from toolbank.encoders.sentence import EncoderTraining, PairKind, SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.numbers import count, unsigned

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class TrainingTexts:
    """Queries, then the descriptions of the tools, each with its prefix.

    `tools` [n_texts, most] are the indices of the tools of each text, padded with -1: those that a
    query uses, or the one that a description describes. `related` [n_texts, more] also has the
    alternatives to these; texts that share one are not negatives of each other.
    """

    texts: tuple[str, ...]
    tools: Rows
    related: Rows
    n_queries: int

    @property
    def n_tools(self) -> int:
        """The number of descriptions."""
        return len(self.texts) - self.n_queries


def make_texts(
    encoder: SentenceConfig,
    queries: Sequence[str],
    uses: Rows,
    documents: Sequence[str],
    spared: Rows | None = None,
) -> TrainingTexts:
    """Put prefixes before queries and documents.

    `uses` [n_queries, most] and their alternatives `spared` [n_queries, any] are padded with -1.
    """
    tools = np.full(
        (len(queries) + len(documents), max(uses.shape[1], 1)), -1, np.int64
    )
    tools[: len(queries), : uses.shape[1]] = uses
    tools[len(queries) :, 0] = np.arange(len(documents))
    texts = (
        *map(encoder.as_query, queries),
        *map(encoder.as_document, documents),
    )
    related = tools
    if spared is not None and spared.size:
        more = np.full((len(tools), spared.shape[1]), -1, np.int64)
        more[: len(queries)] = spared
        related = np.concatenate([tools, more], axis=1)
    return TrainingTexts(texts, tools, related, len(queries))


def share_tool(left: Rows, right: Rows) -> NDArray[np.bool_]:
    """Whether texts share a tool: [n, m] for tools [n, most] and [m, most]."""
    tools = np.unique(left[left >= 0])
    return np.asarray(_mark(left, tools) @ _mark(right, tools).T > 0)


def _mark(rows: Rows, tools: Rows) -> NDArray[np.float32]:
    """Ones [n, n_tools] where a text has one of the sorted tools."""
    row, place = np.nonzero(np.isin(rows, tools))
    marks = np.zeros((len(rows), len(tools)), np.float32)
    marks[row, np.searchsorted(tools, rows[row, place])] = 1
    return marks


def draw_pairs(texts: TrainingTexts, kinds: Sequence[PairKind], seed: int) -> Rows:
    """Draw positions [n_pairs, 2] of an anchor, always a query, and its positive.

    Each use of a tool gives a pair: query-query has another random query of the tool, if there is
    one, and query-description the tool's description.
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
    # A step of 1 to size - 1 leads to each other place of the tool's block.
    step = 1 + np.floor(random.random(len(tools)) * (size - 1)).astype(np.int64)
    partners = queries[start + (own + step) % size]
    pairs = np.stack([queries, partners], axis=1)
    return pairs[size > 1]


_ROUNDS = 30


def draw_negatives(texts: TrainingTexts, pairs: Rows, seed: int) -> Rows:
    """Draw a random negative for each pair [n_pairs], of the same kind as the positive.

    If there is none, the positive takes its place.
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
    # The remaining ones share tools with nearly all others: check every candidate.
    for row in left:
        pool = np.arange(start[row], start[row] + count[row])
        fits = ~share_tool(texts.related[pairs[row, :1]], texts.related[pool])[0]
        if fits.any():
            negatives[row] = random.choice(pool[fits])
    return negatives


def mine_negatives(
    texts: TrainingTexts, pairs: Rows, vectors: NDArray[np.float32], count: int
) -> Rows:
    """Find the `count` nearest negatives of each anchor [n_pairs, count], nearest first.

    `vectors` [n_texts, d] are unit vectors of all texts. Negatives have the same kind as the
    positive. If there are fewer, the positive fills the row.
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
    """Where the texts of each positive's kind start, and their number."""
    is_query = pairs[:, 1] < texts.n_queries
    return (
        np.where(is_query, 0, texts.n_queries),
        np.where(is_query, texts.n_queries, texts.n_tools),
    )


def _shares(left: Rows, right: Rows) -> NDArray[np.bool_]:
    """Whether two texts share a tool, row by row: [n] for tools [n, most] each."""
    same = (left[:, :, None] == right[:, None, :]) & (left[:, :, None] >= 0)
    return np.asarray(same.any(axis=(1, 2)))


def count_rows(training: EncoderTraining, uses: Rows, n_tools: int, seed: int) -> int:
    """Count the rows of a training, without texts or an encoder.

    `uses` [n_queries, most] are the indices of each query's tools, padded with -1.

    Raises:
        InputError: there is none.
    """
    texts = make_texts(SentenceConfig(), [""] * len(uses), uses, [""] * n_tools)
    pairs = draw_pairs(texts, training.pairs, seed)
    rows = len(pairs)
    if training.loss == "triplet":
        # Any texts do: a pair has a negative or none.
        rows = int((draw_negatives(texts, pairs, seed) != pairs[:, 1]).sum())
    demand_rows(rows, training, len(uses))
    return rows


def demand_rows(rows: int, training: EncoderTraining, n_queries: int) -> None:
    """Refuse a fine-tuning without any row.

    Raises:
        InputError: there is none.
    """
    if not rows:
        raise InputError(
            f"training: no {' or '.join(training.pairs)} pairs can be made of "
            f"{count(n_queries, 'train query', 'train queries')}. Add queries that use the same "
            "tools, or remove training."
        )
