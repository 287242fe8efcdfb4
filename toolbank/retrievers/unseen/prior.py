"""How likely a request needs a tool, by the tool's description alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.records import Tool
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import load_encoder
from toolbank.ranking.topk import cosine_scores
from toolbank.retrievers.mean_centering import common_part, take_out
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.stored import Arrays, Stored, floats
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.unseen.platt import fit_line, mark_uses, spread_rows


class DescriptionPrior(Stored):
    """Log-odds that a request needs a tool, before anything is learnt of the tool's use.

    The cosine between the request and the description, what all requests and what all
    descriptions have in common taken out, is turned into log-odds by a line (Platt 1999). The
    line is fitted to the train queries and all tools: descriptions have seen no query, so it
    holds for tools that no query uses, and its values can stand beside a classifier's logits.

    `vectors` [n_tools, d] are the descriptions' unit vectors.
    """

    vectors: NDArray[np.float32]
    common_query: NDArray[np.float32]
    common_description: NDArray[np.float32]
    line: NDArray[np.float64]

    arrays: ClassVar[Arrays] = {
        "vectors": floats("tools", "width"),
        "common_query": floats("width"),
        "common_description": floats("width"),
        "line": floats(2, dtype=np.float64),
    }

    def __init__(self, encoder: EncoderConfig) -> None:
        self.encoder = encoder

    def fit(self, tools: Sequence[Tool], relevance: Relevance) -> Self:
        """Embed the descriptions, and calibrate their cosines on the train queries."""
        model = load_encoder(self.encoder)
        queries = model.encode_queries(relevance.queries)
        described = model.encode_documents([title_and_summary(t) for t in tools])
        self.common_query = (
            common_part(queries)
            if len(queries)
            else np.zeros(model.dimension, np.float32)
        )
        self.common_description = common_part(described)
        self.vectors = take_out(self.common_description, described)
        rows = spread_rows(len(queries), len(tools))
        cosines = cosine_scores(
            take_out(self.common_query, queries[rows]), self.vectors
        )
        needed = mark_uses(relevance.tools[rows], len(tools))
        self.line = fit_line(cosines.ravel(), needed.ravel())
        return self

    def log_odds(
        self, queries: Sequence[str], tools: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Log-odds [n, m] of requests and the tools at these m positions, or all of them.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        vectors = self.vectors if tools is None else self.vectors[tools]
        encoder = load_encoder(self.encoder).of_width(self.vectors.shape[1])
        encoded = encoder.encode_queries(queries)
        cosines = cosine_scores(take_out(self.common_query, encoded), vectors)
        slope, intercept = self.line
        odds = slope * cosines.astype(np.float64) + intercept
        return np.asarray(odds, dtype=np.float32)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Append tools by their descriptions; the calibration stays.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        texts = [title_and_summary(tool) for tool in tools]
        encoder = load_encoder(self.encoder).of_width(self.vectors.shape[1])
        described = encoder.encode_documents(texts)
        added = take_out(self.common_description, described)
        self.vectors = np.concatenate([self.vectors, added])
