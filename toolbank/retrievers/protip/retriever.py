"""ProTIP: progressive retrieval of a plan's tools, in their order (arXiv 2312.10332)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.encoders.model import load_model, save_model
from toolbank.ranking.topk import Hits, blocks, join
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.fallback import SHAPES, Fallback
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.protip.config import ProtipConfig
from toolbank.retrievers.protip.encoder import embed, mean_encoder
from toolbank.retrievers.protip.examples import find_used
from toolbank.retrievers.protip.plans import Plan, hold_back, read_plans
from toolbank.retrievers.protip.progressive import Steps, search_plans, search_steps
from toolbank.retrievers.protip.stop import choose_least_rest
from toolbank.retrievers.protip.unseen import count_ranks, measure_ranks, merge_unseen
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import train_usage
from toolbank.retrievers.validation import validation_recall
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from toolbank.training.run import Training

_ENCODER = "encoder"


class ProtipRetriever:
    """The tool nearest to the request, then the one nearest to what is left of it, and so on.

    Step j of a plan looks for x_j = E(q) - sum of E(t_i) over i < j, by L2 distance to E(t),
    where E is the mean of an encoder's token vectors, not normalised: in training as in search.
    A plan ends where what is left is too small against the distance of the nearest tool;
    `least_rest` is how small.

    A tool that no train plan uses has its E(t) like every other, but training draws no request
    to it, and a plan seldom takes it. In `search` it also stands where its description alone
    puts it, by a `Fallback` that is calibrated on the train queries: `by_rank` are the log-odds
    of the other hits' ranks.

    `least_rest` and `by_rank` are measured on the validation plans. Without any, a tenth of the
    train plans is held back from the training for it; and where those are too few, `least_rest`
    is 1 and `by_rank` is measured on the train plans, whose hits are better than others'.
    """

    def __init__(self, config: ProtipConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self.least_rest = 1.0
        self.by_rank: NDArray[np.float64] = np.zeros(1)
        self.unseen: NDArray[np.int64] = np.zeros(0, np.int64)
        self._fallback: Fallback | None = None
        self._encoder: SentenceTransformer | None = None
        self._training: Training | None = None
        self._counts: dict[str, int] = {}
        self._card = ""

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train the encoder on the plans of the train queries.

        Raises:
            InputError: the order of the bank's tools means nothing, no train query has a tool,
                or the encoder or a setting of the training can't be had.
        """
        from toolbank.retrievers.protip.train import train_plans

        plans, validation = (read_plans(bank, s) for s in ("train", "validation"))
        if not plans:
            raise InputError(
                f"retrievers: {self.name} needs train queries with tools, and there are none."
            )
        known = validation
        if not validation:
            plans, known = hold_back(plans, context.seed)
        encoder = self.config.encoder.model
        self._encoder = mean_encoder(encoder, self.config.training.max_length)
        self.tools = tuple(tool.name for tool in bank.tools)
        texts = self._tool_texts(bank.tools)

        def validate() -> float:
            self.vectors = self._embed(texts)
            self.least_rest = self._choose_least_rest(validation)
            return validation_recall(self._search, bank)

        self._training = train_plans(
            self._encoder,
            plans,
            texts,
            self.config,
            context,
            validate if validation else None,
        )
        self.vectors = self._embed(texts)
        self._counts = {
            "tools": len(texts),
            "train queries": len(plans),
            "validation queries": len(validation),
            **({} if validation else {"train queries held back": len(known)}),
        }
        self.least_rest = self._choose_least_rest(known) if known else 1.0
        known = known or plans
        ranked, _ = self._search(
            [plan.query for plan in known], count_ranks(len(texts))
        )
        self.by_rank = measure_ranks(ranked, known)
        used = find_used(plans)
        self.unseen = np.setdiff1d(np.arange(len(texts)), used)
        self._fallback = Fallback.fit(
            self.config.encoder, bank.tools, train_usage(bank)
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        The steps' hits interleaved, and the tools without use among them. A score is the
        log-odds that such a hit is right.
        """
        hits, _ = self._search(queries, k)
        if self._fallback is None or not len(self.unseen):
            odds = np.zeros((len(queries), 0), np.float32)
        else:
            odds = self._fallback.log_odds(queries, self.unseen)
        parts = [
            merge_unseen(
                hits[block], self.by_rank, self.unseen, odds[block], len(self.tools)
            )
            for block in blocks(len(queries), len(self.tools))
        ]
        return join(parts, hits.shape[1])

    def plan(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        """The tools that each request is still to be served by, in call order.

        `histories` are those that were called already, if any; none of them is planned again.
        Where nothing was called, at least one is planned.

        Raises:
            InputError: a tool of a history is not known.
        """
        steps = self._search_steps(queries, histories, 1, self.config.steps)
        begun = [len(history) > 0 for history in histories] or [False] * len(queries)
        lengths = steps.lengths(self.least_rest, 1 - np.array(begun, dtype=np.int64))
        return [
            tuple(self.tools[index] for index in row[:length])
            for row, length in zip(steps.hits[:, :, 0], lengths, strict=True)
        ]

    def search_next(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]], k: int
    ) -> Hits:
        """The best tools for each request's next step: two arrays [n_queries, k].

        Scores are negative distances. Tools called already come last, at -inf.

        Raises:
            InputError: a tool of a history is not known.
        """
        k = min(k, len(self.tools))
        steps = self._search_steps(queries, histories, k, 1)
        return steps.hits[:, 0], -steps.distances[:, 0].astype(np.float32)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query by a retriever that was trained without it."""
        return cross_fit(self.config, bank, k, context)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Encode further tools; nothing is trained.

        Raises:
            InputError: one of them is there already.
        """
        names = join_names(self.tools, tools)
        added = self._embed(self._tool_texts(tools))
        if self._fallback is not None:
            self._fallback.add_tools(tools)
        new = np.arange(len(self.tools), len(names))
        self.unseen = np.concatenate([self.unseen, new])
        self.vectors = np.concatenate([self.vectors, added])
        self.tools = names

    def save(self, folder: Path) -> None:
        """Write all that `load` needs, the trained encoder among it."""
        from toolbank.training.card import keep_card, write_card

        save_head(folder, self.config, self.tools)
        arrays = {
            "tools": self.vectors,
            "least_rest": np.array([self.least_rest]),
            "by_rank": self.by_rank,
            "unseen": self.unseen,
        }
        fallback = self._fallback.arrays() if self._fallback else {}
        save_arrays(folder, {**arrays, **fallback})
        save_model(self._fitted, folder / _ENCODER)
        if self._training:
            write_card(
                folder,
                self.config,
                method="ProTIP (arXiv 2312.10332): progressive retrieval of a plan's tools.",
                counts=self._counts,
                trainings={"encoder": self._training},
            )
        else:
            keep_card(folder, self._card)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        from toolbank.training.card import read_card

        config, tools = load_head(folder, ProtipConfig)
        retriever = cls(config)
        retriever.tools = tools
        shapes = {
            "tools": (len(tools), None),
            "least_rest": (1,),
            "by_rank": (None,),
            "unseen": (None,),
        }
        arrays = load_arrays(folder, {**shapes, **SHAPES})
        demand(
            within(arrays["unseen"], 0, len(tools)) and len(arrays["by_rank"]) > 0,
            folder / VECTORS,
            "not of the tools in tools.json",
        )
        retriever.by_rank = arrays["by_rank"].astype(np.float64, copy=False)
        retriever.unseen = arrays["unseen"].astype(np.int64, copy=False)
        retriever._fallback = Fallback.from_arrays(
            config.encoder, arrays, len(tools), folder
        )
        retriever.vectors = arrays["tools"].astype(np.float32, copy=False)
        retriever.least_rest = float(arrays["least_rest"][0])
        encoder = load_model(str((folder / _ENCODER).resolve()))
        demand(
            encoder.get_embedding_dimension() == retriever.vectors.shape[1],
            folder / VECTORS,
            "not of the encoder",
        )
        retriever._encoder = encoder
        retriever._card = read_card(folder)
        return retriever

    @property
    def _fitted(self) -> SentenceTransformer:
        if self._encoder is None:
            raise InputError(f"{self.name}: not fitted yet.")
        return self._encoder

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return embed(self._fitted, texts, self.config.encoder.batch_size)

    def _embed_queries(self, queries: Sequence[str]) -> NDArray[np.float32]:
        return self._embed([self.config.encoder.query_prefix + q for q in queries])

    def _tool_texts(self, tools: Sequence[Tool]) -> list[str]:
        prefix = self.config.encoder.document_prefix
        return [prefix + title_and_summary(tool) for tool in tools]

    def _search(self, queries: Sequence[str], k: int) -> Hits:
        """The steps' hits interleaved, by the trained encoder alone."""
        return search_plans(
            self._embed_queries(queries),
            self.vectors,
            self.config.steps,
            self.least_rest,
            k,
        )

    def _search_steps(
        self,
        queries: Sequence[str],
        histories: Sequence[Sequence[str]],
        depth: int,
        steps: int,
    ) -> Steps:
        if histories and len(histories) != len(queries):
            raise InputError(
                f"{self.name}: {len(queries)} requests and {len(histories)} histories. Give "
                "one a request, empty where nothing was called."
            )
        numbers = {name: number for number, name in enumerate(self.tools)}
        for name in (name for history in histories for name in history):
            if name not in numbers:
                raise InputError(
                    f"{self.name}: the history has {name!r}, and no tool here is called so."
                )
        used = [[numbers[name] for name in history] for history in histories]
        return search_steps(
            self._embed_queries(queries), self.vectors, steps, depth, used
        )

    def _choose_least_rest(self, validation: Sequence[Plan]) -> float:
        vectors = self._embed_queries([plan.query for plan in validation])
        steps = search_steps(vectors, self.vectors, self.config.steps, 1)
        return choose_least_rest(steps, [plan.tools for plan in validation])
