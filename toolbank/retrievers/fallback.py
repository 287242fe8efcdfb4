"""Tools that no train query uses: how likely a request needs them, by their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.records import Tool
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import Encoder, load_encoder
from toolbank.ranking.topk import cosine_scores
from toolbank.retrievers.calibration import fit_line, mark_uses, spread_rows
from toolbank.retrievers.centring import common_part, take_out
from toolbank.retrievers.store import VECTORS, Arrays, demand, demand_width
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import Usage

SHAPES: dict[str, tuple[int | None, ...]] = {
    "descriptions": (None, None),
    "common_query": (None,),
    "common_description": (None,),
    "line": (2,),
}
"""The arrays of a fallback, to be read together with a method's own."""


class Fallback:
    """Log-odds that a request needs a tool, by its description alone.

    The cosine between the request and the description, what all requests and what all
    descriptions have in common taken out, is turned into log-odds by a line (Platt 1999). The
    line is fitted to the train queries and all tools: descriptions have seen no usage, so it
    holds for tools that no query uses, and its values can stand beside a classifier's logits.

    `vectors` [n_tools, d] are the descriptions' unit vectors.
    """

    def __init__(
        self,
        encoder: EncoderConfig,
        vectors: NDArray[np.float32],
        common_query: NDArray[np.float32],
        common_description: NDArray[np.float32],
        line: NDArray[np.float64],
    ) -> None:
        self.encoder = encoder
        self.vectors = vectors
        self._common_query = common_query
        self._common_description = common_description
        self._line = line

    @classmethod
    def fit(cls, encoder: EncoderConfig, tools: Sequence[Tool], usage: Usage) -> Self:
        """Embed the descriptions, and calibrate their cosines on the train queries."""
        model = load_encoder(encoder)
        queries = model.encode_queries(usage.queries)
        described = model.encode_documents([title_and_summary(t) for t in tools])
        common_query = (
            common_part(queries)
            if len(queries)
            else np.zeros(model.dimension, np.float32)
        )
        common_description = common_part(described)
        vectors = take_out(common_description, described)
        rows = spread_rows(len(queries), len(tools))
        cosines = cosine_scores(take_out(common_query, queries[rows]), vectors)
        needed = mark_uses(usage.tools[rows], len(tools))
        line = fit_line(cosines.ravel(), needed.ravel())
        return cls(encoder, vectors, common_query, common_description, line)

    def log_odds(
        self, queries: Sequence[str], tools: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Log-odds [n, m] of requests and the tools at these m positions, or all of them.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        vectors = self.vectors if tools is None else self.vectors[tools]
        encoded = self._load_encoder().encode_queries(queries)
        cosines = cosine_scores(take_out(self._common_query, encoded), vectors)
        slope, intercept = self._line
        odds = slope * cosines.astype(np.float64) + intercept
        return np.asarray(odds, dtype=np.float32)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Append tools by their descriptions; the calibration stays.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        described = self._load_encoder().encode_documents(
            [title_and_summary(tool) for tool in tools]
        )
        added = take_out(self._common_description, described)
        self.vectors = np.concatenate([self.vectors, added])

    def arrays(self) -> Arrays:
        """What `from_arrays` needs, by the names in `SHAPES`."""
        return {
            "descriptions": self.vectors,
            "common_query": self._common_query,
            "common_description": self._common_description,
            "line": self._line,
        }

    @classmethod
    def from_arrays(
        cls, encoder: EncoderConfig, arrays: Arrays, n_tools: int, folder: Path
    ) -> Self:
        """Take it out of the arrays that were read from a folder.

        Raises:
            InputError: they do not fit each other, or the number of tools.
        """
        vectors = arrays["descriptions"].astype(np.float32, copy=False)
        commons = [
            arrays[name].astype(np.float32, copy=False)
            for name in ("common_query", "common_description")
        ]
        path = folder / VECTORS
        demand(len(vectors) == n_tools, path, "descriptions of other tools")
        demand(
            all(common.shape == vectors.shape[1:] for common in commons),
            path,
            "descriptions and their common parts differ in length",
        )
        line = arrays["line"].astype(np.float64, copy=False)
        return cls(encoder, vectors, commons[0], commons[1], line)

    def _load_encoder(self) -> Encoder:
        encoder = load_encoder(self.encoder)
        demand_width(encoder.dimension, self.vectors, self.encoder.model)
        return encoder
