"""Tool2Vec: a tool is the mean of the queries that use it (arXiv 2409.02141, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.encoders.sentence import Encoder, load_encoder
from toolbank.ranking.topk import Hits, blocks, cosine_scores, join, top_k
from toolbank.retrievers.calibration import (
    AS_IT_IS,
    bridge,
    fit_bridge,
    spread_rows,
    unused_without,
)
from toolbank.retrievers.centring import common_part, take_out
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    demand_width,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.tool2vec.centroids import Centroids, Rows, make_centroids
from toolbank.retrievers.tool2vec.config import Tool2VecConfig
from toolbank.retrievers.tuning import read_encoder, save_encoder, take_encoder
from toolbank.retrievers.usage import train_usage
from toolbank.training.card import read_card

if TYPE_CHECKING:
    from toolbank.encoders.finetune.finetune import FineTuned

_METHOD = (
    "Tool2Vec (arXiv 2409.02141): cosine between a request and the mean of the requests that use "
    "a tool, drawn toward its description, by a sentence encoder fine-tuned on them."
)


class Tool2VecRetriever:
    """Cosine between a request and the mean of the train queries that use a tool.

    The paper's mean is drawn toward the description: v_t = normalised (sum of E(q) over the
    queries of t + w E(description)). So a tool that no query uses is its description, and one
    with few queries stays near it. With `centre`, what all queries have in common, and apart
    from it what all descriptions have in common, is taken out of every vector first: it says
    nothing about the tool, and without it no tool is near to every request. With `training`,
    the encoder is fine-tuned on the train queries first.

    Cosines of descriptions are lower than those of queries' means, so the scores of tools that
    no query uses are brought to the scale of the others' (`toolbank.retrievers.calibration`).

    `vectors` [n_tools, d] are the tools' unit vectors; `common` [d] is what is taken out of a
    request.
    """

    def __init__(self, config: Tool2VecConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self.common: NDArray[np.float32] = np.zeros(0, np.float32)
        self._common_to_descriptions: NDArray[np.float32] = np.zeros(0, np.float32)
        self._used: NDArray[np.int64] = np.zeros(0, np.int64)
        self._line = AS_IT_IS
        self._own_encoder: Encoder | None = None
        self._tuned: FineTuned | None = None
        self._card = ""

    @property
    def unused(self) -> NDArray[np.bool_]:
        """Which tools [n_tools] no train query uses; added ones among them."""
        unused: NDArray[np.bool_] = self._used == 0
        return unused

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Average the train queries of every tool and its description.

        Raises:
            InputError: no pair can be made of the queries, or the encoder can't be trained.
        """
        texts = [title_and_summary(tool) for tool in bank.tools]
        average = partial(self._average, bank)
        self._tuned = take_encoder(self, bank, texts, context, average)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores are cosines; those of tools without use are brought to the scale of the others.
        """
        encoded = self.embed(queries)
        parts = []
        for block in blocks(len(encoded), len(self.vectors)):
            cosines = cosine_scores(encoded[block], self.vectors)
            parts.append(
                top_k(bridge(cosines, cosines, self.unused[None], self._line), k)
            )
        return join(parts, min(k, len(self.vectors)))

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query as of a retriever that has not seen it.

        Without `training`, its own tools' vectors are made as if without it (`own_vectors`).
        With it, encoders are fine-tuned on a part of the queries each (`cross_fit`).
        """
        if self.config.training is not None:
            return cross_fit(self.config, bank, k, context)
        centroids = self._centroids(bank)
        left = unused_without(centroids.uses, len(self.vectors))
        parts = []
        for block in blocks(len(centroids.queries), len(self.vectors)):
            cosines = self._compare(centroids, block)
            parts.append(top_k(bridge(cosines, cosines, left(block), self._line), k))
        return join(parts, min(k, len(self.vectors)))

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit, by their descriptions.

        Raises:
            InputError: one of them is there already.
        """
        names = join_names(self.tools, tools)
        self.vectors = np.concatenate([self.vectors, self.embed_tools(tools)])
        self._used = np.concatenate([self._used, np.zeros(len(tools), np.int64)])
        self.tools = names

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = self._encoder()
        demand_width(encoder.dimension, self.common, encoder.config.model)
        return take_out(self.common, encoder.encode_queries(queries))

    def embed_train(self, bank: Bank) -> NDArray[np.float32]:
        """Unit vectors [n_train, d] of the bank's train queries, in the space of `vectors`."""
        return self.embed(train_usage(bank).queries)

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors of each train query's own tools, made as if without that query.

        [n_train, most, d], parallel to `train_usage(bank).tools`; zeros where that is padded.
        Of a mean v over n queries that is (n v - q) / (n - 1), and the same with weights and
        a description in the sum. It equals a new fit without the query, but for `common`, in
        which the query stays: one part in n_train + 20; and, with `training`, but for the
        encoder, which was fine-tuned on the query.
        """
        return self._centroids(bank).without(slice(None))

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Unit vectors [n, d] that tools have here by their descriptions alone.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = self._encoder()
        demand_width(encoder.dimension, self.common, encoder.config.model)
        return take_out(self._common_to_descriptions, self._describe(tools))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; an encoder that was not trained is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(
            folder,
            {
                "tools": self.vectors,
                "common": self.common,
                "common_to_descriptions": self._common_to_descriptions,
                "used": self._used,
                "line": self._line,
            },
        )
        save_encoder(
            folder, self.config, self._own_encoder, self._tuned, _METHOD, self._card
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, Tool2VecConfig)
        retriever = cls(config)
        retriever.tools = tools
        commons = ("common", "common_to_descriptions")
        shapes: dict[str, tuple[int | None, ...]] = {
            "tools": (len(tools), None),
            "used": (len(tools),),
            "line": (2,),
            **dict.fromkeys(commons, (None,)),
        }
        arrays = load_arrays(folder, shapes)
        for name in commons:
            demand(
                arrays["tools"].shape[1:] == arrays[name].shape,
                folder / VECTORS,
                f"tools and {name} differ in length",
            )
        retriever.vectors, retriever.common, retriever._common_to_descriptions = (
            arrays[name].astype(np.float32, copy=False) for name in ("tools", *commons)
        )
        demand(within(arrays["used"], 0, 2), folder / VECTORS, "used is not 0 or 1")
        retriever._used = arrays["used"].astype(np.int64, copy=False)
        retriever._line = arrays["line"].astype(np.float64, copy=False)
        if config.training is not None:
            retriever._own_encoder = read_encoder(folder, config.encoder)
            retriever._card = read_card(folder)
        return retriever

    def _average(self, bank: Bank, own_encoder: Encoder | None) -> None:
        self._own_encoder = own_encoder
        self.tools = tuple(tool.name for tool in bank.tools)
        usage = train_usage(bank)
        queries = self._encoder().encode_queries(usage.queries)
        descriptions = self._describe(bank.tools)
        self.common = np.zeros(queries.shape[1], np.float32)
        self._common_to_descriptions = self.common
        if self.config.centre:
            self.common = common_part(queries)
            self._common_to_descriptions = common_part(descriptions)
        centroids = make_centroids(
            take_out(self.common, queries),
            take_out(self._common_to_descriptions, descriptions),
            usage.tools,
            usage.weights,
            self.config.description_weight,
        )
        self.vectors = centroids.vectors
        used = np.isin(np.arange(len(self.tools)), usage.tools)
        self._used = used.astype(np.int64)
        self._line = self._calibrate(centroids)

    def _calibrate(self, centroids: Centroids) -> NDArray[np.float64]:
        """What brings cosines of descriptions to the scale of those of used tools."""
        rows = spread_rows(len(centroids.queries), len(self.vectors))
        return fit_bridge(
            self._compare(centroids, rows),
            cosine_scores(centroids.queries[rows], centroids.descriptions),
            centroids.uses[rows],
            unused_without(centroids.uses, len(self.vectors))(rows),
        )

    def _compare(self, centroids: Centroids, queries: Rows) -> NDArray[np.float32]:
        """Cosines [n, n_tools] of train queries, their own tools as if without them."""
        vectors, uses = centroids.queries[queries], centroids.uses[queries]
        cosines = cosine_scores(vectors, self.vectors)
        rows, places = np.nonzero(uses >= 0)
        own = centroids.without(queries)[rows, places]
        products = np.einsum("nd,nd->n", vectors[rows], own)
        cosines[rows, uses[rows, places]] = np.round(products, 6)
        return cosines

    def _centroids(self, bank: Bank) -> Centroids:
        """The sums that `vectors` were made of, from the bank that it was fitted on."""
        usage = train_usage(bank)
        return make_centroids(
            self.embed(usage.queries),
            self.embed_tools(bank.tools),
            usage.tools,
            usage.weights,
            self.config.description_weight,
        )

    def _encoder(self) -> Encoder:
        return self._own_encoder or load_encoder(self.config.encoder)

    def _describe(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        texts = [title_and_summary(tool) for tool in tools]
        return self._encoder().encode_documents(texts)
