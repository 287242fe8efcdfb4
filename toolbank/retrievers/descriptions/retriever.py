"""Embedded descriptions: without training the floor under every retriever that learns."""

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
from toolbank.ranking.topk import Hits, search_vectors
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.descriptions.config import DescriptionsConfig
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import (
    demand_width,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
)
from toolbank.retrievers.text import full_text, title_and_summary
from toolbank.retrievers.tuning import read_encoder, save_encoder, take_encoder
from toolbank.retrievers.usage import train_usage
from toolbank.training.card import read_card

if TYPE_CHECKING:
    from toolbank.encoders.finetune.finetune import FineTuned


_TEXTS = {"summary": title_and_summary, "full": full_text}
_METHOD = (
    "A sentence encoder fine-tuned on requests and the descriptions of the tools that they use: "
    "cosine between a request and a tool's description."
)


class DescriptionsRetriever:
    """Cosine between a request and each tool's name and summary, or all of its description.

    With `training`, the encoder is fine-tuned on the train queries and their tools' texts: the
    dense retriever of ToolBench (arXiv 2307.16789, section 3.2).

    `vectors` [n_tools, d] are the tools' unit vectors.
    """

    def __init__(self, config: DescriptionsConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._own_encoder: Encoder | None = None
        self._tuned: FineTuned | None = None
        self._card = ""

    @property
    def unused(self) -> None:
        """None: all vectors are of descriptions, whether a train query uses the tool or not."""
        return None

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Embed the tools' texts; without `training`, queries are not used.

        Raises:
            InputError: no pair can be made of the queries, or the encoder can't be trained.
        """
        embed = partial(self._embed_bank, bank)
        self._tuned = take_encoder(self, bank, self._texts(bank.tools), context, embed)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return search_vectors(self.embed(queries), self.vectors, k)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query as of a retriever that has not seen it.

        Without `training` none is seen. With it, encoders are fine-tuned on a part of the
        queries each (`cross_fit`).
        """
        if self.config.training is not None:
            return cross_fit(self.config, bank, k, context)
        return search_vectors(self.embed_train(bank), self.vectors, k)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit.

        Raises:
            InputError: one of them is there already.
        """
        names = join_names(self.tools, tools)
        self.vectors = np.concatenate([self.vectors, self.embed_tools(tools)])
        self.tools = names

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = self._encoder()
        demand_width(encoder.dimension, self.vectors, encoder.config.model)
        return encoder.encode_queries(queries)

    def embed_train(self, bank: Bank) -> NDArray[np.float32]:
        """Unit vectors [n_train, d] of the bank's train queries, in the space of `vectors`."""
        return self.embed([query.query for query in bank.split("train")])

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors [n_train, most, d] of each train query's own tools; zeros where padded.

        They are those of `vectors`: a tool's vector is of its text alone.
        """
        uses = train_usage(bank).tools
        return np.where(uses[:, :, None] >= 0, self.vectors[uses], np.float32(0))

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of tools by their descriptions.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = self._encoder()
        demand_width(encoder.dimension, self.vectors, encoder.config.model)
        return encoder.encode_documents(self._texts(tools))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; an encoder that was not trained is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(folder, {"tools": self.vectors})
        save_encoder(
            folder, self.config, self._own_encoder, self._tuned, _METHOD, self._card
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, DescriptionsConfig)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, {"tools": (len(tools), None)})
        retriever.vectors = arrays["tools"].astype(np.float32, copy=False)
        if config.training is not None:
            retriever._own_encoder = read_encoder(folder, config.encoder)
            retriever._card = read_card(folder)
        return retriever

    def _embed_bank(self, bank: Bank, own_encoder: Encoder | None) -> None:
        self._own_encoder = own_encoder
        self.tools = tuple(tool.name for tool in bank.tools)
        self.vectors = self._encoder().encode_documents(self._texts(bank.tools))

    def _encoder(self) -> Encoder:
        return self._own_encoder or load_encoder(self.config.encoder)

    def _texts(self, tools: Sequence[Tool]) -> list[str]:
        return [_TEXTS[self.config.text](tool) for tool in tools]
