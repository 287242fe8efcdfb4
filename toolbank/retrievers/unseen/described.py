"""How likely a request needs a tool, by the tool's description alone."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import blocks, cosine_scores
from toolbank.bank.records import Tool
from toolbank.encoders.base import Encoder
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.logistic import regress
from toolbank.retrievers.mean_centering import common_part, take_out
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.stored import Arrays, Stored, Texts, demand, floats
from toolbank.retrievers.text import all_words, title_and_summary
from toolbank.retrievers.unseen.pairs import Rows, mark_uses, spread_rows
from toolbank.retrievers.unseen.words import WordRanks

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
# Of all tools: to copy the vectors of more takes longer than to look at all of them.
_FEW = 0.25

Places = NDArray[np.int64]


class DescriptionOdds(Stored):
    """Log-odds that a request needs a tool, before anything is learnt of the tool's use.

    A logistic regression on the cosine of a request and a description, with what all requests
    and what all descriptions have in common taken out, and on one over the description's rank
    by BM25 among those of the fit. It is fitted to the train queries and the tools that they
    use. Descriptions have seen no query, so it holds for tools that no query uses. It is weakly
    drawn to what holds for other banks, so that it is finite with few examples or none; and
    what is nearer is never the less likely.

    `vectors` [n_tools, d] are the descriptions' unit vectors. Without an encoder d is 0, and
    BM25 b, as b / (1 + b), stands for the cosine. `scale` [2] makes log-odds of a method's
    scores (Platt 1999), by a slope and an intercept; unless it is fitted, these are log-odds.
    `documents` are what BM25 reads of the tools, `fitted` what it read of those of the fit, and
    `words` their index.
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
        described = _encode_tools(tools, encoder)
        self.common_query = np.zeros(described.shape[1], np.float32)
        if len(queries):
            self.common_query = common_part(queries)
        self.common_description = common_part(described)
        self.vectors = take_out(self.common_description, described)
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
        """Learn which log-odds a method's scores stand for.

        A tool that no other query uses has no score that tells what a request for it would
        have. If such pairs were skipped, a bank with one query per tool would have no example
        of a needed tool, and every score would mean "not needed". So the query's own tool
        counts with the score of the best tool that the query does not need.

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
        """A method's scores [n, n_tools], but of `unseen` tools by their descriptions.

        Those are what a seen tool of the same log-odds would have, to six decimals.

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
        """Log-odds [n, m] of m tools, or of all, by the descriptions alone.

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
        """One with further tools; what was fitted stays, and so does this one.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        if encoder is not None:
            encoder = encoder.of_width(self.vectors.shape[1])
        added = take_out(self.common_description, _encode_tools(tools, encoder))
        grown = copy(self)
        grown.vectors = np.concatenate([self.vectors, added])
        grown.documents = (*self.documents, *(all_words(tool) for tool in tools))
        return grown

    def save_state(self, folder: Path) -> None:
        """Write it, with the index of words: to make that of 16,000 tools takes half a second."""
        super().save_state(folder)
        self.words.save_state(folder / _WORDS)

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read it; the index of words is made anew where an earlier version has left none.

        Raises:
            InputError: a file is missing or damaged, or not of these tools.
        """
        super().load_state(folder, lengths)
        self.words = LexicalIndex.at(folder / _WORDS, self.fitted)
        of_these = int(self.words.n_texts) == len(self.fitted)
        demand(of_these, folder / _WORDS, "an index of other texts")

    def _compare(
        self, queries: Sequence[str], encoded: NDArray[np.float32], tools: Places
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What the regression is on, of requests and m tools: nearness and 1 / rank, [n, m].

        `encoded` [n, d] are the requests' unit vectors.
        """
        ranks = self._ranks
        if ranks is None or ranks.documents is not self.documents:
            self._ranks = ranks = WordRanks(self.words, self.fitted, self.documents)
        words, rank = ranks.find(queries, tools)
        if not self.vectors.shape[1]:
            return (words / (1 + words)).astype(np.float64), 1 / rank
        asked = take_out(self.common_query, encoded)
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


def _encode_tools(
    tools: Sequence[Tool], encoder: Encoder | None
) -> NDArray[np.float32]:
    if encoder is None:
        return np.zeros((len(tools), 0), np.float32)
    return encoder.encode_documents([title_and_summary(tool) for tool in tools])
