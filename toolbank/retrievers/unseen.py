"""Tools that no train query uses: their log-odds by their descriptions alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits, blocks, cosine_scores
from toolbank.bank.records import Tool
from toolbank.encoders.base import Encoder
from toolbank.retrievers.base import all_words, title_and_summary
from toolbank.retrievers.dense import common_part, subtract_common
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.stored import Arrays, Stored, Texts, floats

Rows = NDArray[np.int64]

_PAIRS = 2_000_000


def spread_rows(n_queries: int, n_columns: int) -> Rows:
    """Choose evenly spread queries, at most so many that `_PAIRS` pairs result.

    Each query is compared with `n_columns` tools or texts.
    """
    wanted = min(n_queries, max(1, _PAIRS // max(n_columns, 1)))
    return np.linspace(0, n_queries - 1, wanted).astype(np.int64)


def mark_uses(uses: Rows, n_tools: int) -> NDArray[np.bool_]:
    """Mark the tools [n, n_tools] of each query, given `uses` [n, most] padded with -1."""
    # The last column takes the padding and is cut off.
    marked = np.zeros((len(uses), n_tools + 1), np.bool_)
    np.put_along_axis(marked, uses, True, axis=1)
    return marked[:, :n_tools]


def unseen_without(
    uses: Rows, n_tools: int
) -> Callable[[slice | Rows], NDArray[np.bool_]]:
    """Make a function that marks the tools [n, n_tools] that no other train query uses."""
    counts = np.bincount(uses[uses >= 0], minlength=n_tools)

    def find(rows: slice | Rows) -> NDArray[np.bool_]:
        unseen = np.repeat((counts == 0)[None], len(uses[rows]), axis=0)
        row, place = np.nonzero(uses[rows] >= 0)
        tools = uses[rows][row, place]
        unseen[row, tools] = counts[tools] == 1
        return unseen

    return find


def keep_ranks(first: Hits, unseen: NDArray[np.bool_], others: Hits) -> Hits:
    """Merge hits [n, k]: unseen tools keep their ranks of `first`, the rest are `others`.

    `first` are the hits [n, k] of all tools, `unseen` [n, k] marks the unseen tools among them, and
    `others` [n, k] are the hits of the other tools, padded with scores of -inf.

    Of two others and j unseen tools between them, the scores of these part the way down from
    the one to the other at 1 / 2, 1 / 3, ... 1 / (j + 1) from below. Above the first and below
    the last of all others the way is 1 long. So a score does not depend on k.
    """
    scores = others[1].astype(np.float64)
    best = scores[:, :1]
    scores = np.concatenate([np.where(np.isinf(best), 1, best + 1), scores], axis=1)
    # The number of other tools up to a rank, and of unseen tools since the last of them.
    place = (~unseen).astype(np.int64).cumsum(axis=1)
    ranks = np.arange(unseen.shape[1])
    last = np.maximum.accumulate(np.where(unseen, -1, ranks), axis=1)
    above = np.take_along_axis(scores, place, axis=1)
    below = np.take_along_axis(scores, np.minimum(place + 1, scores.shape[1] - 1), 1)
    below = np.where(np.isinf(below), above - 1, below)
    between = below + (above - below) / (ranks - last + 1)
    rest = np.take_along_axis(others[0], np.maximum(place - 1, 0), axis=1)
    indices = np.where(unseen, first[0], rest)
    return indices, np.where(unseen, between, above).astype(np.float32)


class WordRanks:
    """Ranks of `documents` by BM25 among the documents of the fit, `fitted`, with their `index`.

    So the rank of a document does not depend on added or removed ones.
    """

    def __init__(
        self, index: LexicalIndex, fitted: tuple[str, ...], documents: tuple[str, ...]
    ) -> None:
        places = {text: place for place, text in enumerate(fitted)}
        self.documents = documents
        self._places = np.array([places.get(text, -1) for text in documents], np.int64)
        self._index = index
        added = [text for text in documents if text not in places]
        self._grown = LexicalIndex.of([*fitted, *added]) if added else None
        # Of an added document, its place among all of them.
        self._grown_places = len(fitted) - 1 + np.cumsum(self._places < 0)

    def find(
        self, queries: Sequence[str], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """BM25 and ranks of some documents, both [n, m]; ties have the last rank."""
        places = self._places[documents]
        fitted = self._index.scores(queries)
        scores = fitted[:, places]
        ranks = _count_above(scores, fitted)
        if self._grown is not None:
            added = np.flatnonzero(places < 0)
            grown = self._grown.scores(queries)
            own = grown[:, self._grown_places[documents[added]]]
            scores[:, added] = own
            ranks[:, added] = _count_above(own, grown[:, : fitted.shape[1]]) + 1
        return scores, ranks


def _count_above(
    own: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Count the scores in a row of others [n, m] that are at least each own score [n, k].

    No score is below 0, and most are 0.
    """
    counts = np.full(own.shape, others.shape[1])
    for row, mine, all_others in zip(counts, own, others, strict=True):
        found = np.flatnonzero(mine)
        rivals = np.sort(all_others[all_others > 0])
        row[found] = len(rivals) - np.searchsorted(rivals, mine[found])
    return counts


_STEPS = 50


def regress(
    features: NDArray[np.floating],
    holds: NDArray[np.bool_],
    prior: NDArray[np.float64],
    weight: NDArray[np.float64],
    least_slope: float,
) -> NDArray[np.float64]:
    """Fit a logistic regression: slopes [m] and, last, the intercept of the log-odds.

    `features` are [n, m], `holds` [n]. The coefficients [m + 1] are drawn to `prior` with the
    precisions `weight`. A slope below `least_slope` is set to it, and the other coefficients are
    fitted again.
    """
    ones = np.ones((len(features), 1))
    columns = np.concatenate([features, ones], axis=1).astype(np.float64)
    found, free = prior.copy(), np.ones(len(prior), np.bool_)
    while True:
        given = columns[:, ~free] @ found[~free]
        found[free] = _solve(columns[:, free], holds, given, prior[free], weight[free])
        low = free & (found < least_slope)
        low[-1] = False
        if not low.any():
            return found
        found[low] = least_slope
        free &= ~low


def _solve(
    features: NDArray[np.float64],
    holds: NDArray[np.bool_],
    given: NDArray[np.float64],
    prior: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Coefficients of a logistic regression on `features` [n, m], by Newton's method.

    `holds` [n] is the response, and `given` [n] is a fixed offset of the log-odds. The
    coefficients are normally distributed around `prior` with precisions `weight`.
    """

    def loss(coefficients: NDArray[np.float64]) -> float:
        odds = features @ coefficients + given
        away = weight @ (coefficients - prior) ** 2 / 2
        return float(np.logaddexp(0, odds).sum() - odds[holds].sum() + away)

    found, reached = prior.copy(), loss(prior)
    for _ in range(_STEPS):
        chances = np.exp(-np.logaddexp(0, -(features @ found + given)))
        slopes = features.T @ (chances - holds) + weight * (found - prior)
        spread = features * (chances * (1 - chances))[:, None]
        step = np.linalg.solve(spread.T @ features + np.diag(weight), slopes)
        # From far away a full step can overshoot.
        while loss(found - step) > reached and np.abs(step).max() > 1e-8:
            step = step / 2
        if np.abs(step).max() < 1e-8:
            break
        found = found - step
        reached = loss(found)
    return found


# Of a cosine, one over a rank, and a constant; about what holds for UltraTool and ToolLens.
_USUAL = np.array([10.0, 3.0, -6.0])
_USUAL_WEIGHT = np.array([0.01, 0.01, 0.1])
_LEAST_SLOPE = 0.1
# Of a score, such as a cosine, and a constant.
_USUAL_SCALE = np.array([16.0, -7.0])
_USUAL_SCALE_WEIGHT = np.array([0.01, 0.1])
_LEAST_SCALE = 4.0
_WORDS = "words"
_LOG_ODDS = np.array([1.0, 0.0])
# Share of all tools: copying the vectors of more takes longer than comparing with all.
_FEW = 0.25

Places = NDArray[np.int64]


class DescriptionOdds(Stored):
    """Log-odds that a request needs a tool, by the tool's description alone.

    A logistic regression on the cosine of a request and a description, each less its common part,
    and on one over the description's BM25 rank among those of the fit. It is fitted to the train
    queries and their tools. Descriptions do not depend on queries, so it also holds for tools that
    no query uses. A weak prior from other banks keeps it finite with few examples. No slope is
    negative.

    `vectors` [n_tools, d] are the descriptions' unit vectors. Without an encoder d is 0, and
    b / (1 + b) of the BM25 b replaces the cosine. `scale` [2] turns a method's scores into log-odds
    by a slope and an intercept (Platt 1999); by default, the scores are log-odds. `documents` are
    the texts of the tools for BM25, `fitted` those of the fit, and `words` the index of `fitted`.
    """

    vectors: NDArray[np.float32]
    common_query: NDArray[np.float32]
    common_description: NDArray[np.float32]
    coefficients: NDArray[np.float64]
    scale: NDArray[np.float64]
    documents: tuple[str, ...]
    fitted: tuple[str, ...]
    words: LexicalIndex

    arrays: ClassVar[Arrays] = {
        "vectors": floats("tools", "width"),
        "common_query": floats("width"),
        "common_description": floats("width"),
        "coefficients": floats(3, dtype=np.float64),
        "scale": floats(2, dtype=np.float64),
    }
    texts: ClassVar[Texts] = {"documents": "tools", "fitted": "fitted"}
    _ranks: WordRanks | None = None

    def fit(
        self, tools: Sequence[Tool], relevance: Relevance, encoder: Encoder | None
    ) -> Self:
        """Embed the descriptions, and fit the regression to the train queries."""
        queries = _encode_queries(relevance.queries, encoder)
        described = encode_tools(tools, encoder)
        self.common_query = np.zeros(described.shape[1], np.float32)
        if len(queries):
            self.common_query = common_part(queries)
        self.common_description = common_part(described)
        self.vectors = subtract_common(self.common_description, described)
        self.documents = self.fitted = tuple(all_words(tool) for tool in tools)
        self.words = LexicalIndex.of(self.fitted)
        self.scale = _LOG_ODDS
        rows = spread_rows(len(queries), 4 * len(tools))
        asked = [relevance.queries[row] for row in rows]
        used = np.unique(relevance.tools[relevance.tools >= 0])
        features = np.stack(self._compare(asked, queries[rows], used), axis=-1)
        needed = mark_uses(relevance.tools[rows], len(tools))[:, used]
        self.coefficients = regress(
            features.reshape(-1, features.shape[-1]),
            needed.ravel(),
            _USUAL,
            _USUAL_WEIGHT,
            _LEAST_SLOPE,
        )
        return self

    def fit_scale(
        self, scores: NDArray[np.float32], uses: Rows, unseen: NDArray[np.bool_]
    ) -> None:
        """Fit `scale`, which turns a method's scores into log-odds.

        A tool that no other query uses has no meaningful score for its query. If such pairs were
        skipped, a bank with one query per tool would have no example of a needed tool, and every
        score would mean "not needed". So the query's own tool counts with the score of the best
        tool that the query does not need.

        Args:
            scores: [n, n_tools], of train queries by a retriever that has not seen them.
            uses: Each query's tools [n, most], padded with -1.
            unseen: [n, n_tools], the pairs whose tool no other query uses.
        """
        needed = mark_uses(uses, scores.shape[1])
        others = np.where(unseen | needed, -np.inf, scores)
        best = others.max(axis=1, initial=-np.inf, keepdims=True)
        unknown = unseen & needed & np.isfinite(best)
        examples = ~unseen | unknown
        self.scale = regress(
            np.where(unknown, best, scores)[examples][:, None],
            needed[examples],
            _USUAL_SCALE,
            _USUAL_SCALE_WEIGHT,
            _LEAST_SCALE,
        )

    def place(
        self,
        scores: NDArray[np.float32],
        unseen: NDArray[np.bool_],
        queries: Sequence[str],
        encoder: Encoder | None,
    ) -> NDArray[np.float32]:
        """Replace the scores [n, n_tools] of `unseen` tools by scores from their descriptions.

        These are the scores of seen tools of the same log-odds, rounded to six decimals.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        tools = np.flatnonzero(unseen.any(axis=0))
        if not len(tools):
            return scores
        slope, intercept = self.scale
        odds = self.log_odds(queries, encoder, tools)
        placed = np.round((odds - intercept) / slope, 6)
        found = scores.astype(np.float32)
        found[:, tools] = np.where(unseen[:, tools], placed, found[:, tools])
        return found

    def log_odds(
        self,
        queries: Sequence[str],
        encoder: Encoder | None,
        tools: Places | None = None,
    ) -> NDArray[np.float64]:
        """Return log-odds [n, m] of m tools, or of all, by the descriptions alone.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        if tools is None:
            tools = np.arange(len(self.documents))
        near_slope, rank_slope, intercept = self.coefficients
        odds = np.zeros((len(queries), len(tools)))
        if encoder is not None:
            encoder = encoder.of_width(self.vectors.shape[1])
        for rows in blocks(len(queries), len(self.documents)):
            asked = queries[rows]
            near, rank = self._compare(asked, _encode_queries(asked, encoder), tools)
            odds[rows] = near_slope * near + rank_slope * rank + intercept
        return odds

    def extended(self, tools: Sequence[Tool], encoder: Encoder | None) -> Self:
        """Return a copy with further tools, without fitting again.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        if encoder is not None:
            encoder = encoder.of_width(self.vectors.shape[1])
        added = subtract_common(self.common_description, encode_tools(tools, encoder))
        grown = copy(self)
        grown.vectors = np.concatenate([self.vectors, added])
        grown.documents = (*self.documents, *(all_words(tool) for tool in tools))
        return grown

    def save_state(self, folder: Path) -> None:
        """Write it, with the index of words: building that takes half a second for 16,000 tools."""
        super().save_state(folder)
        self.words.save_state(folder / _WORDS)

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read it, with the index of words.

        Raises:
            InputError: a file is missing or damaged, or not of these tools.
        """
        super().load_state(folder, lengths)
        self.words = LexicalIndex.at(folder / _WORDS, self.fitted)

    def _compare(
        self, queries: Sequence[str], encoded: NDArray[np.float32], tools: Places
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The features of requests and m tools: nearness and 1 / rank, both [n, m].

        `encoded` [n, d] are the requests' unit vectors.
        """
        ranks = self._ranks
        if ranks is None or ranks.documents is not self.documents:
            self._ranks = ranks = WordRanks(self.words, self.fitted, self.documents)
        words, rank = ranks.find(queries, tools)
        if not self.vectors.shape[1]:
            return (words / (1 + words)).astype(np.float64), 1 / rank
        asked = subtract_common(self.common_query, encoded)
        if len(tools) < _FEW * len(self.vectors):
            near = cosine_scores(asked, self.vectors[tools])
        else:
            near = cosine_scores(asked, self.vectors)[:, tools]
        return near.astype(np.float64), 1 / rank


def _encode_queries(
    queries: Sequence[str], encoder: Encoder | None
) -> NDArray[np.float32]:
    if encoder is None:
        return np.zeros((len(queries), 0), np.float32)
    return encoder.encode_queries(queries)


def encode_tools(tools: Sequence[Tool], encoder: Encoder | None) -> NDArray[np.float32]:
    """Unit vectors [n, d] of names and summaries; d is 0 without an encoder."""
    if encoder is None:
        return np.zeros((len(tools), 0), np.float32)
    return encoder.encode_documents([title_and_summary(tool) for tool in tools])
