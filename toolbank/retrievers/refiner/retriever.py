"""ToolRefiner: the candidates of a first stage judged together (arXiv 2409.02141, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, Ties, top_k
from toolbank.encoders.location import locate
from toolbank.encoders.onnx import OnnxNetwork
from toolbank.retrievers.base import ALONE, FitContext, Packing
from toolbank.retrievers.refiner import first_stage_features
from toolbank.retrievers.relevance import (
    train_relevance,
    validation_queries,
    validation_recall,
)
from toolbank.retrievers.settings import RefinerConfig
from toolbank.retrievers.two_stage import TwoStage
from toolbank.retrievers.unseen import keep_ranks
from toolbank.system.errors import InputError
from toolbank.training.card import make_card
from toolbank.training.ranks import broadcast, rank

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from toolbank.retrievers.refiner.network import RefinerModel, TrainRows
    from toolbank.training.text import Ids

_MODEL = "model"
_BATCH = 32


class RefinerRetriever(TwoStage):
    """Reranks a first stage's candidates by their logits; its other hits follow.

    One pass of an encoder over the request's tokens and the candidates' projected vectors gives a
    logit for each candidate. It is trained by binary cross-entropy. In training, as in search, the
    candidates are those of a first stage that has not seen the query, and the vectors of the
    query's tools are computed without the query. A fine-tuned encoder of these vectors has seen
    the query, though, so the query and its tools are nearer to each other than in a search.

    The vector of a tool that no train query uses is of another kind: it is of the description. If
    the dense retriever distinguishes such tools (`unseen`), they keep their ranks of the first
    stage, and the others share the remaining ranks.

    Three departures from the paper: all candidates share one position, so they have no order; the
    logits start at the log-odds by the first stage's held-out score and rank; and it trains for
    fewer epochs. On 303 train queries of UltraTool held back for validation, one epoch of MiniLM on
    32 candidates of a frozen Tool2Vec raises Recall@3 from 83.0 to 85.7. Without the initial
    log-odds, and with the scores as inputs, it reaches 81.4.
    """

    config: RefinerConfig
    network: OnnxNetwork | None = None
    model: RefinerModel
    tokenizer: PreTrainedTokenizerBase

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train on the first stage's held-out hits for the train queries.

        The best epoch by Recall@5 on the validation queries stays.

        Raises:
            InputError: no train queries, no vectors, an encoder that does not serve.
        """
        import torch

        from toolbank.retrievers.refiner import fit_log_odds
        from toolbank.retrievers.refiner.network import collate, make_refiner
        from toolbank.training.run import seed_weights, train_model
        from toolbank.training.text import pad_id

        train = bank.train_queries
        if not train:
            raise InputError(
                f"retrievers: {self.name} learns from train queries, and this bank has no train "
                "queries. Generate or import some, or remove it."
            )
        self.take_stages(context.fitted)
        seed_weights(context.seed)
        self.model, self.tokenizer = make_refiner(
            locate(self.config.encoder), self.dense.vectors.shape[1]
        )
        rows = self._train_rows(bank, context)
        labelled = (rows.candidates >= 0) & (rows.labels >= 0)
        slopes, intercept = fit_log_odds(
            rows.features[labelled], rows.labels[labelled] == 1
        )
        self.model.start_from(torch.from_numpy(slopes), intercept)
        training = train_model(
            self.model,
            rows,
            self.config.training,
            context,
            collate=partial(collate, pad_id=pad_id(self.tokenizer)),
            lengths=[len(ids) for ids in rows.ids],
            validate=self._make_validation(bank),
            title=self.name,
            part="refiner",
        )
        self.card = make_card(
            self.config,
            method="The candidates of a first stage, judged together with the request in one "
            "pass (ToolRefiner, arXiv 2409.02141, section 4.3).",
            counts={
                "tools": len(bank.tools),
                "train queries": len(train),
                "validation queries": len(validation_queries(bank)),
            },
            trainings={"refiner": training},
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A candidate's score is its logit; an unseen tool's is between those of its neighbours (see
        `keep_ranks`). The other hits follow below the lowest, in steps of one.
        """
        depth = max(k, self.config.candidates)
        hits = self.first.search(queries, depth)
        ids, ties = self._tokenise(queries), self.draw_ties(queries)
        indices, scores = self._refine(ids, hits, ties)
        return indices[:, :k], scores[:, :k]

    def save_parts(self, folder: Path) -> None:
        """Write the stages and the network."""
        from toolbank.retrievers.network import save_network

        super().save_parts(folder)
        save_network(
            folder / _MODEL, self.model, self.model.body.config, self.tokenizer
        )

    def load_parts(self, folder: Path) -> None:
        """Read what `save_parts` wrote.

        Raises:
            InputError: a file is missing or damaged.
        """
        super().load_parts(folder)
        self.network = None
        if OnnxNetwork.lies_in(folder / _MODEL):
            self.network = OnnxNetwork(folder / _MODEL)
            return
        from toolbank.retrievers.refiner.network import load_refiner

        self.model, self.tokenizer = load_refiner(
            folder / _MODEL, self.dense.vectors.shape[1]
        )

    def pack_config(self, folder: Path, packing: Packing) -> RefinerConfig:  # noqa: ARG002
        """Keep the settings: `pack_parts` writes the network."""
        return self.config

    def pack_parts(self, folder: Path, packing: Packing) -> None:
        """Pack the stages, and write the network as ONNX."""
        super().pack_parts(folder, packing)
        if self.network is not None:
            self.network.write(folder / _MODEL)
            return
        from toolbank.retrievers.refiner.network import export_refiner

        packing.networks.append(folder / _MODEL)
        width = self.dense.vectors.shape[1]
        export_refiner(
            folder / _MODEL,
            self.model,
            self.tokenizer,
            self._longest,
            width,
            packing.precision,
        )

    def _train_rows(self, bank: Bank, context: FitContext) -> TrainRows:
        from toolbank.retrievers.refiner.network import search_rows, train_rows

        dense = self.dense
        held_out = self.first.search_train(
            bank,
            self.config.candidates,
            replace(context.within("first"), of=f"for {context.name(self.name)}"),
        )
        relevance = train_relevance(bank)
        ids = self._tokenise(relevance.queries)
        return train_rows(
            search_rows(ids, held_out, dense.vectors),
            relevance,
            own=dense.own_vectors(bank),
        )

    def _make_validation(self, bank: Bank) -> Callable[[], float] | None:
        """Make a function of Recall@5 on the validation queries; None without any."""
        queries = [query.query for query in validation_queries(bank)]
        if not queries:
            return None
        # Neither changes while the network is trained.
        first, most = self.first, self.config.candidates
        hits = broadcast(first.search(queries, most) if rank() == 0 else None)
        assert hits is not None
        ids, ties = self._tokenise(queries), self.draw_ties(queries)
        return lambda: validation_recall(lambda *_: self._refine(ids, hits, ties), bank)

    def _tokenise(self, queries: Sequence[str]) -> list[Ids]:
        texts = [*map(self.config.encoder.as_query, queries)]
        if self.network is not None:
            return self.network.tokenise(texts)
        from toolbank.training.text import tokenise

        return tokenise(self.tokenizer, texts, self._longest)

    @property
    def _longest(self) -> int:
        """Tokens that are read of a request."""
        from toolbank.retrievers.refiner.network import longest_request

        return min(self.config.training.max_length, longest_request(self.model.body))

    def _refine(self, ids: Sequence[Ids], hits: Hits, ties: Ties) -> Hits:
        """Order the first hits by their logits; the others follow."""
        n = min(self.config.candidates, hits[0].shape[1])
        candidates, others = hits[0][:, :n], hits[0][:, n:]
        judged = candidates, hits[1][:, :n]
        logits, order = self._judge(ids, judged), ties.order_of(candidates)
        unseen = self.dense.unseen
        if unseen is None or not unseen.any():
            places, scores = top_k(logits, n, order)
            indices = np.take_along_axis(candidates, places, axis=1)
        else:
            kept = unseen[candidates] & (candidates >= 0)
            logits[kept] = -np.inf
            places, scores = top_k(logits, n, order)
            seen = np.take_along_axis(candidates, places, axis=1)
            seen = np.where(np.isinf(scores), -1, seen)
            indices, scores = keep_ranks(judged, kept, (seen, scores))
        down = np.arange(1, others.shape[1] + 1, dtype=np.float32)
        lower = np.where(others < 0, np.float32(-np.inf), scores[:, -1:] - down)
        return (
            np.concatenate([indices, others], axis=1),
            np.concatenate([scores, lower], axis=1),
        )

    def _judge(self, ids: Sequence[Ids], hits: Hits) -> NDArray[np.float32]:
        """Logits [n_queries, n_candidates], to four decimals; -inf without a candidate."""
        if self.network is not None:
            logits = self._judge_each(self.network, ids, hits)
        else:
            logits = self._judge_together(ids, hits)
        return np.where(hits[0] < 0, np.float32(-np.inf), np.round(logits, 4))

    def _judge_each(
        self, network: OnnxNetwork, ids: Sequence[Ids], hits: Hits
    ) -> NDArray[np.float32]:
        """Logits by ONNX, one request at a time, so that none depends on another."""
        logits = np.zeros(hits[0].shape, np.float32)
        features = first_stage_features(hits[1])
        for row, (tokens, candidates) in enumerate(zip(ids, hits[0], strict=True)):
            n = int((candidates >= 0).sum())
            if not n:
                continue
            logits[row, :n] = network.run(
                input_ids=np.array([tokens], np.int64),
                attention_mask=np.ones((1, len(tokens)), np.int64),
                vectors=self.dense.vectors[candidates[:n]][None],
                features=features[row : row + 1, :n],
                candidate_mask=np.ones((1, n), np.int64),
            )[0]
        return logits

    def _judge_together(self, ids: Sequence[Ids], hits: Hits) -> NDArray[np.float32]:
        from toolbank.retrievers.network import run_batches
        from toolbank.retrievers.refiner.network import collate, search_rows
        from toolbank.training.text import pad_id

        return run_batches(
            self.model,
            lambda **inputs: self.model(**inputs)["logits"],
            search_rows(ids, hits, self.dense.vectors),
            list(map(len, ids)),
            _BATCH,
            partial(collate, pad_id=pad_id(self.tokenizer)),
            hits[0].shape[1],
        )
