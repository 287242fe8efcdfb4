"""ProTIP: progressive retrieval of a plan's tools, in their order (arXiv 2312.10332)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, rank_blocks
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder
from toolbank.encoders.config import OnnxConfig
from toolbank.encoders.location import locate
from toolbank.encoders.onnx import OnnxNetwork
from toolbank.retrievers.base import (
    ALONE,
    FitContext,
    Packing,
    Retriever,
    read_encoder,
    title_and_summary,
)
from toolbank.retrievers.protip.plans import (
    SearchTrace,
    ToolPlan,
    divide_plans,
    read_plans,
    search_plans,
    trace_search,
)
from toolbank.retrievers.relevance import train_relevance, validation_recall
from toolbank.retrievers.settings import ProtipConfig
from toolbank.retrievers.stored import Arrays, Stored, demand, flags, floats
from toolbank.retrievers.unseen import DescriptionOdds
from toolbank.system.errors import InputError
from toolbank.training.card import make_card

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


RANKS = 20
"""Number of measured ranks; later ranks count like the last."""

_FALL = 1e-4


def measure_ranks(
    hits: NDArray[np.int64], plans: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """Measure the log-odds [ranks] that a hit of a rank is a tool of the plan; they never rise.

    `hits` [n, ranks] are the hits for the requests of `plans`, which hold indices of tools.
    """
    right = np.array(
        [np.isin(row, plan) for row, plan in zip(hits, plans, strict=True)]
    ).sum(axis=0)
    odds = (right + 0.5) / (len(plans) - right + 0.5)
    return np.minimum.accumulate(np.log(odds))


def score_hits(
    hits: NDArray[np.int64], by_rank: NDArray[np.float64], n_tools: int
) -> NDArray[np.float32]:
    """Return falling log-odds [n, n_tools] of hits [n, k] by rank; -inf for all other tools."""
    ranks = np.arange(hits.shape[1])
    falling = by_rank[np.minimum(ranks, len(by_rank) - 1)] - _FALL * ranks
    scores = np.full((len(hits), n_tools), -np.inf, np.float32)
    np.put_along_axis(scores, hits, falling.astype(np.float32)[None], axis=1)
    return scores


_CHOICES = 100


def choose_threshold(trace: SearchTrace, plans: Sequence[Sequence[int]]) -> float:
    """Choose the least residual of a step by the mean F1 of the taken tools.

    Among equals, the one that ends plans sooner.
    """
    shares = np.linspace(0, 1, _CHOICES)
    choices = np.unique(np.quantile(trace.residuals, shares, method="lower"))
    taken = trace.hits[:, :, 0]
    right = np.array(
        [np.isin(row, plan) for row, plan in zip(taken, plans, strict=True)]
    )
    # How many were right by each step; none is taken twice.
    found = right.cumsum(axis=1)
    sizes = np.array([len(set(plan)) for plan in plans])

    def mean_f1(choice: float) -> float:
        lengths = trace.lengths(choice)
        hits = found[np.arange(len(found)), lengths - 1]
        return float((2 * hits / (sizes + lengths)).mean())

    return float(max(choices[::-1], key=mean_f1))


_ENCODER = "encoder"


class ProtipRetriever(Retriever):
    """Finds the tool nearest to the request, then the one nearest to the rest, and so on.

    Step j of a plan searches for x_j = E(q) - sum of E(t_i) over i < j, by L2 distance to E(t). E
    is the mean of an encoder's token vectors, not normalised. A plan ends when the norm of the
    rest over the distance of the nearest tool is below `stop_threshold`.

    Training draws no request to a tool that no train plan uses (`unseen` [n_tools]), so a plan
    rarely takes it. In `search` it has the better of this rank and the rank by its description
    (`toolbank.retrievers.unseen`). `by_rank` [ranks] are the log-odds of the other hits.

    `stop_threshold` and `by_rank` are measured on the validation plans. Without any, a tenth of
    the train plans is held back for it. If those are too few, `stop_threshold` is 1 and `by_rank`
    is measured on the train plans.
    """

    config: ProtipConfig
    vectors: NDArray[np.float32]
    stop_threshold: float
    by_rank: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    described: DescriptionOdds
    encoder: SentenceTransformer
    network: OnnxNetwork | None = None
    onnx: OnnxConfig | None = None

    arrays: ClassVar[Arrays] = {
        "vectors": floats("tools", "width"),
        "stop_threshold": floats(dtype=np.float64),
        "by_rank": floats("ranks", dtype=np.float64),
        "unseen": flags("tools"),
    }
    parts: ClassVar[Mapping[str, type[Stored]]] = {"described": DescriptionOdds}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train the encoder on the plans of the train queries.

        Raises:
            InputError: the order of the bank's tools means nothing, no train query has a tool,
                or the encoder or a setting of the training cannot be found.
        """
        from toolbank.retrievers.protip import mean_encoder
        from toolbank.retrievers.protip.training import find_used, train_plans

        plans, known = divide_plans(bank, context.seed)
        if not plans:
            raise InputError(
                f"retrievers: {self.name} needs train queries with tools, and there are none. "
                "Generate or import some, or remove it."
            )
        validation = read_plans(bank, bank.split("validation"))
        encoder = locate(self.config.encoder)
        self.encoder = mean_encoder(encoder, self.config.training.max_length)
        self.tools = bank.tool_names
        texts = self._tool_texts(bank.tools)

        def validate() -> float:
            self.vectors = self._embed(texts)
            self.stop_threshold = self._choose_threshold(validation)
            return validation_recall(self._search, bank)

        training = train_plans(
            self.encoder,
            plans,
            texts,
            self.config,
            context,
            validate if validation else None,
        )
        self.vectors = self._embed(texts)
        self.card = make_card(
            self.config,
            method="ProTIP (arXiv 2312.10332): progressive retrieval of a plan's tools.",
            counts={
                "tools": len(texts),
                "train queries": len(plans),
                "validation queries": len(validation),
                **({} if validation else {"train queries held back": len(known)}),
            },
            trainings={"encoder": training},
        )
        self.stop_threshold = self._choose_threshold(known) if known else 1.0
        known = known or plans
        ranked, _ = self._search([plan.query for plan in known], RANKS)
        self.by_rank = measure_ranks(ranked, [plan.tools for plan in known])
        self.unseen = ~np.isin(np.arange(len(texts)), find_used(plans))
        self.described = DescriptionOdds().fit(
            bank.tools, train_relevance(bank), self._untrained
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        The steps' hits interleaved, and the tools without use among them. A score is the
        log-odds that such a hit is right.
        """
        hits, _ = self._search(queries, k)

        def score(rows: slice) -> NDArray[np.float32]:
            odds = score_hits(hits[rows], self.by_rank, len(self.tools))
            unseen = self.unseen[None]
            placed = self.described.place(odds, unseen, queries[rows], self._untrained)
            return np.maximum(odds, placed)

        return rank_blocks(score, self.draw_ties(queries), k)

    def plan(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        """Plan the remaining tools of each request, in call order.

        `histories` are the tools that were called already; they are not planned again. Without a
        history, at least one tool is planned.

        Raises:
            InputError: a tool of a history is not known.
        """
        trace = self._trace(queries, histories, 1, self.config.steps)
        begun = [len(history) > 0 for history in histories] or [False] * len(queries)
        lengths = trace.lengths(
            self.stop_threshold, 1 - np.array(begun, dtype=np.int64)
        )
        return [
            tuple(self.tools[index] for index in row[:length])
            for row, length in zip(trace.hits[:, :, 0], lengths, strict=True)
        ]

    def search_next(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]], k: int
    ) -> Hits:
        """Find the best tools for each request's next step: two arrays [n_queries, k].

        Scores are negative distances. Tools that were called already come last, at -inf.

        Raises:
            InputError: a tool of a history is not known.
        """
        k = min(k, len(self.tools))
        trace = self._trace(queries, histories, k, 1)
        return trace.hits[:, 0], -trace.distances[:, 0].astype(np.float32)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Encode further tools; nothing is trained."""
        added = self._embed(self._tool_texts(tools))
        self.described = self.described.extended(tools, self._untrained)
        self.unseen = np.append(self.unseen, np.ones(len(tools), np.bool_))
        self.vectors = np.concatenate([self.vectors, added])

    def save_parts(self, folder: Path) -> None:
        """Write the trained encoder."""
        from toolbank.encoders.model import save_model

        save_model(self.encoder, folder / _ENCODER)

    def load_parts(self, folder: Path) -> None:
        """Read what `save_parts` wrote.

        Raises:
            InputError: a file is missing or damaged.
        """
        self.network = None
        if OnnxNetwork.lies_in(folder / _ENCODER):
            self.network = OnnxNetwork(folder / _ENCODER)
            self.onnx = read_encoder(folder)
            return
        from toolbank.encoders.model import load_model

        self.encoder = load_model(str((folder / _ENCODER).resolve()))
        fits = self.encoder.get_embedding_dimension() == self.vectors.shape[1]
        demand(fits, folder / _ENCODER, "not of the vectors")

    def pack_config(self, folder: Path, packing: Packing) -> ProtipConfig:  # noqa: ARG002
        """Keep the settings: `pack_parts` writes the encoders."""
        return self.config

    def pack_parts(self, folder: Path, packing: Packing) -> None:
        """Write the trained encoder as ONNX, and the untrained one."""
        packing.name_encoder(self._untrained, folder)
        if self.network is not None:
            self.network.write(folder / _ENCODER)
            return
        from toolbank.encoders.onnx_export import TextVectors, export_network

        encoder: Any = self.encoder
        packing.networks.append(folder / _ENCODER)
        export_network(
            folder / _ENCODER,
            TextVectors(encoder, self.vectors.shape[1], unit=False),
            encoder.tokenizer,
            encoder.max_seq_length,
            self.vectors.shape[1],
            packing.precision,
        )

    @property
    def _untrained(self) -> Encoder:
        """The original encoder."""
        return load_encoder(self.config.encoder if self.onnx is None else self.onnx)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.network is not None:
            return self.network.run_texts(texts)
        from toolbank.retrievers.protip import embed

        return embed(self.encoder, texts, self.config.encoder.batch_size)

    def _embed_queries(self, queries: Sequence[str]) -> NDArray[np.float32]:
        return self._embed([*map(self.config.encoder.as_query, queries)])

    def _tool_texts(self, tools: Sequence[Tool]) -> list[str]:
        return [
            self.config.encoder.as_document(title_and_summary(one)) for one in tools
        ]

    def _search(self, queries: Sequence[str], k: int) -> Hits:
        """The steps' hits interleaved, by the trained encoder alone."""
        return search_plans(
            self._embed_queries(queries),
            self.vectors,
            self.draw_ties(queries),
            self.config.steps,
            self.stop_threshold,
            k,
        )

    def _trace(
        self,
        queries: Sequence[str],
        histories: Sequence[Sequence[str]],
        depth: int,
        steps: int,
    ) -> SearchTrace:
        if histories and len(histories) != len(queries):
            raise InputError(
                f"{self.name}: {len(queries)} requests and {len(histories)} histories. Give one "
                "history per request; it may be empty."
            )
        numbers = {name: number for number, name in enumerate(self.tools)}
        if unknown := {n for h in histories for n in h} - numbers.keys():
            raise InputError(
                f"{self.name}: there is no tool {min(unknown)!r}, which a history has. Give names "
                "of its `tools`, or add the tool first (`add_tools`)."
            )
        used = [[numbers[name] for name in history] for history in histories]
        return trace_search(
            self._embed_queries(queries),
            self.vectors,
            self.draw_ties(queries),
            steps,
            depth,
            used,
        )

    def _choose_threshold(self, validation: Sequence[ToolPlan]) -> float:
        queries = [plan.query for plan in validation]
        trace = self._trace(queries, (), 1, self.config.steps)
        return choose_threshold(trace, [plan.tools for plan in validation])
