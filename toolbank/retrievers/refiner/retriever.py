"""ToolRefiner: the candidates of a first stage judged together (arXiv 2409.02141, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.ranking.topk import Hits, top_k
from toolbank.retrievers import load_retriever
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.protocol import ALONE, DenseRetriever, FitContext, Retriever
from toolbank.retrievers.refiner.candidates import (
    TrainRows,
    collate,
    search_rows,
    train_rows,
)
from toolbank.retrievers.refiner.config import RefinerConfig
from toolbank.retrievers.refiner.sequence import longest_request
from toolbank.retrievers.refiner.standing import fit_log_odds
from toolbank.retrievers.refiner.store import load_saved, make_model, save_model
from toolbank.retrievers.store import load_head, save_head
from toolbank.retrievers.usage import train_usage
from toolbank.retrievers.validation import validation_queries, validation_recall
from toolbank.system.errors import InputError
from toolbank.training.card import keep_card, read_card, write_card
from toolbank.training.ranks import broadcast, rank
from toolbank.training.run import Training, seed_weights, train_model
from toolbank.training.text import Ids, batches_by_length, pad_id, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from toolbank.retrievers.refiner.model import RefinerModel

_FIRST, _VECTORS, _MODEL = "first", "vectors", "model"
_BATCH = 32


class RefinerRetriever:
    """A first stage's candidates, in the order of their logits; its other hits follow.

    One pass of an encoder over the request's tokens and the candidates' projected vectors gives
    a logit for each candidate. It is trained by binary cross-entropy at every candidate. The
    candidates are those of a first stage that has not seen the query, and its own tools' vectors
    are made without it: so it meets in training what it will meet at search. Where the encoder
    of those vectors is fine-tuned, though, it has seen the query, and draws it and its tools
    nearer to each other than they will be at search.

    It departs from the paper in four ways. The candidates have no order: all stand at one
    position. The logits begin as the log-odds by the first stage's score and rank, held out in
    training, and the network learns what those leave open. Some candidates stand under their
    descriptions' vectors in training, for the sake of tools without use. And it trains for
    fewer epochs. On 303 train queries of UltraTool held back for validation, one epoch of MiniLM
    on 32 candidates of a frozen Tool2Vec brings its Recall@3 from 83.0 to 85.7; begun at
    nothing, and told the scores with the vectors, it comes to 81.4.
    """

    def __init__(self, config: RefinerConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._parts: _Parts | None = None
        self._counts: dict[str, int] = {}
        self._training: Training | None = None
        self._card = ""

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """Its first stage, and the retriever whose vectors it reads, by their labels."""
        return {
            self.config.vectors: self._fitted.dense,
            self.config.first_stage: self._fitted.first,
        }

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train on the first stage's held-out hits for the train queries.

        The best epoch by Recall@5 on the validation queries stays.

        Raises:
            InputError: no train queries, no vectors, an encoder that does not serve.
        """
        train = bank.split("train")
        if not train:
            raise InputError(
                f"{self.name}: the bank has no train queries to learn from."
            )
        self.tools = tuple(tool.name for tool in bank.tools)
        dense = _demand_vectors(self.name, context.fitted[self.config.vectors])
        seed_weights(context.seed)
        model, tokenizer = make_model(self.config.encoder.model, dense.vectors.shape[1])
        first = context.fitted[self.config.first_stage]
        self._parts = _Parts(first, dense, model, tokenizer)
        rows = self._train_rows(bank, context)
        slopes, intercept = fit_log_odds(rows.rows.standing, rows.labels)
        model.start_from(torch.from_numpy(slopes), intercept)
        self._training = train_model(
            model,
            rows,
            self.config.training,
            context,
            collate=partial(collate, pad_id=pad_id(tokenizer)),
            lengths=[len(ids) for ids in rows.rows.ids],
            validate=self._make_validation(bank),
            title=self.name,
            part="refiner",
        )
        self._counts = {
            "tools": len(bank.tools),
            "train queries": len(train),
            "validation queries": len(validation_queries(bank)),
        }

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A candidate's score is its logit. Those of the other hits go on down from the lowest
        logit in steps of one.
        """
        depth = max(k, self.config.candidates)
        hits = self._fitted.first.search(queries, depth)
        indices, scores = self._refine(self._tokenise(queries), hits)
        return indices[:, :k], scores[:, :k]

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query as of a refiner, and a first stage, that have not seen it."""
        built_on = replace(context, fitted=self.built_on)
        return cross_fit(self.config, bank, k, built_on)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit, where the first stage finds them.

        Raises:
            InputError: one of them is there already.
        """
        first, dense = self._fitted.first, self._fitted.dense
        first.add_tools(tools)
        # The first stage may be built on the same retriever, and have added them to it.
        if dense.tools != first.tools:
            dense.add_tools(tools)
        self.tools = first.tools

    def save(self, folder: Path) -> None:
        """Write all that `load` needs, the first stage and the vectors' retriever too."""
        parts = self._fitted
        save_head(folder, self.config, self.tools)
        parts.first.save(folder / _FIRST)
        if parts.dense is not parts.first:
            parts.dense.save(folder / _VECTORS)
        save_model(folder / _MODEL, parts.model, parts.tokenizer)
        if self._training:
            write_card(
                folder,
                self.config,
                method="The candidates of a first stage, judged together with the request in "
                "one pass (ToolRefiner, arXiv 2409.02141, section 4.3).",
                counts=self._counts,
                trainings={"refiner": self._training},
            )
        else:
            keep_card(folder, self._card)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, RefinerConfig)
        retriever = cls(config)
        retriever.tools = tools
        first = load_retriever(folder / _FIRST)
        other = config.vectors != config.first_stage
        dense = load_retriever(folder / _VECTORS) if other else first
        for part in (first, dense):
            if part.tools != tools:
                raise InputError(
                    f"{folder}: damaged ({part.name} has other tools). "
                    "Fit it again: toolbank train RUN."
                )
        vectors = _demand_vectors(config.label, dense)
        model, tokenizer = load_saved(folder / _MODEL, vectors.vectors.shape[1])
        if torch.cuda.is_available():
            model.cuda()
        retriever._parts = _Parts(first, vectors, model, tokenizer)
        retriever._card = read_card(folder)
        return retriever

    @property
    def _fitted(self) -> _Parts:
        if self._parts is None:
            raise InputError(f"{self.name}: not fitted yet. First: toolbank train RUN.")
        return self._parts

    def _train_rows(self, bank: Bank, context: FitContext) -> TrainRows:
        dense = self._fitted.dense
        held_out = self._fitted.first.search_train(
            bank, self.config.candidates, context.within(_FIRST)
        )
        usage = train_usage(bank)
        ids = self._tokenise(usage.queries)
        return train_rows(
            search_rows(ids, held_out, dense.vectors),
            usage,
            own=dense.own_vectors(bank),
            descriptions=dense.embed_tools(bank.tools),
            seed=context.seed,
        )

    def _make_validation(self, bank: Bank) -> Callable[[], float] | None:
        """What gives Recall@5 on the validation queries, if any, by the weights as they are."""
        queries = [query.query for query in validation_queries(bank)]
        if not queries:
            return None
        # Neither changes while the network is trained.
        first, most = self._fitted.first, self.config.candidates
        hits = broadcast(first.search(queries, most) if rank() == 0 else None)
        assert hits is not None
        ids = self._tokenise(queries)
        return lambda: validation_recall(lambda *_: self._refine(ids, hits), bank)

    def _tokenise(self, queries: Sequence[str]) -> list[Ids]:
        prefix = self.config.encoder.query_prefix
        longest = longest_request(self._fitted.model.body)
        return tokenise(
            self._fitted.tokenizer,
            [prefix + query for query in queries],
            min(self.config.training.max_length, longest),
        )

    def _refine(self, ids: Sequence[Ids], hits: Hits) -> Hits:
        """The first of the hits in the order of their logits, the others after them."""
        n = min(self.config.candidates, hits[0].shape[1])
        # In the order of the tools, so that those of the same logit stay in it.
        by_tool = np.argsort(hits[0][:, :n], axis=1)
        logits = self._judge(ids, (hits[0][:, :n], hits[1][:, :n]))
        order, scores = top_k(np.take_along_axis(logits, by_tool, axis=1), n)
        places = np.take_along_axis(by_tool, order, axis=1)
        indices = np.concatenate(
            [np.take_along_axis(hits[0], places, axis=1), hits[0][:, n:]], axis=1
        )
        down = np.arange(1, hits[0].shape[1] - n + 1, dtype=np.float32)
        return indices, np.concatenate([scores, scores[:, -1:] - down], axis=1)

    def _judge(self, ids: Sequence[Ids], hits: Hits) -> NDArray[np.float32]:
        """Logits [n_queries, n_candidates], to four decimals."""
        model = self._fitted.model
        rows = search_rows(ids, hits, self._fitted.dense.vectors)
        logits = np.zeros(hits[0].shape, np.float32)
        device = model.head.weight.device
        padding = pad_id(self._fitted.tokenizer)
        model.eval()
        for batch in batches_by_length([len(row) for row in ids], _BATCH):
            inputs = collate([rows[i] for i in batch], padding)
            with torch.inference_mode():
                found = model(**{k: v.to(device) for k, v in inputs.items()})
            logits[batch] = found["logits"].cpu().numpy()
        return np.round(logits, 4)


@dataclass(frozen=True)
class _Parts:
    """What a fitted refiner is made of."""

    first: Retriever
    dense: DenseRetriever
    model: RefinerModel
    tokenizer: PreTrainedTokenizerBase


def _demand_vectors(name: str, retriever: Retriever) -> DenseRetriever:
    if not isinstance(retriever, DenseRetriever):
        raise InputError(
            f"{name}: vectors: {retriever.name} ({retriever.config.type}) has no vectors of "
            "tools. Name a retriever such as tool2vec or descriptions."
        )
    return retriever
