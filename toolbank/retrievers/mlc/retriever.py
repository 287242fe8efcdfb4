"""MLC: retrieval as multi-label classification (arXiv 2409.02141, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, blocks, join, rank_blocks, top_k
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.location import locate
from toolbank.encoders.onnx import OnnxNetwork
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import ALONE, CONFIG, FitContext, Packing, Retriever
from toolbank.retrievers.relevance import (
    RECALL_AT,
    Relevance,
    find_relevance,
    mean_recall,
    train_relevance,
    validation_queries,
    validation_recall,
)
from toolbank.retrievers.settings import (
    MlcConfig,
    Tool2VecConfig,
    name_last_layer,
    suit_the_last_layer,
)
from toolbank.retrievers.stored import ARRAYS, Arrays, demand, floats, integers
from toolbank.retrievers.tool2vec import Tool2VecRetriever
from toolbank.training.card import make_card

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from toolbank.retrievers.mlc.network import Classifier, Rows
    from toolbank.training.run import Training


_MODEL, _PRIOR = "model", "tool2vec"
# Weights of Tool2Vec in queries. The first is the default without validation queries, and wins ties.
_WEIGHTS = (64.0, 0.0, 4.0, 16.0, 256.0)
_DESCRIPTION = (
    "MLC (arXiv 2409.02141): a classifier with a label for each tool, trained by binary "
    "cross-entropy; tools with little use are found by Tool2Vec."
)


class MlcRetriever(Retriever):
    """A classifier with an independent label for each tool that a train query uses.

    Scores are log-odds: a weighted mean of the classifier's and Tool2Vec's. Tool2Vec counts like
    `description_weight` queries of a tool, so it dominates for tools with few queries and decides
    alone for tools without any. By default, the weight with the best Recall@5 on the validation
    queries is chosen. The classifier is an encoder with a linear layer on [CLS], or on the mean of
    the tokens if the encoder was trained so. With `frozen` it is a head of two layers on the
    encoder's vectors. It is trained by binary cross-entropy; each label's bias starts at its prior
    log-odds. A query by the `rules` engine counts for a quarter.

    If the encoder is trained, the linear layer is trained alone first, on the features of the
    original encoder, and then all weights together (LP-FT, arXiv 2202.10054). A random layer would
    distort the encoder.

    `labels` [n_tools] are the tools' labels, -1 without one; `shares` [n_tools] is the weight of
    Tool2Vec in a tool's log-odds.
    """

    config: MlcConfig
    labels: NDArray[np.int64]
    shares: NDArray[np.float64]
    prior: Tool2VecRetriever
    classifier: Classifier | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    network: OnnxNetwork | None = None

    arrays: ClassVar[Arrays] = {
        "labels": integers("tools", low=-1, high=2**31),
        "shares": floats("tools", dtype=np.float64, low=0, high=1),
    }

    def check_encoder(self) -> None:
        """Refuse an encoder that is no transformer, or has no layer to classify with."""
        from toolbank.retrievers.mlc.network import check_architecture

        if not self.config.frozen:
            check_architecture(locate(self.config.encoder))

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train the classifier; the best epoch by Recall@5 on validation queries stays.

        Raises:
            InputError: the encoder cannot be found or read, or a setting is not for this machine.
        """
        relevance = train_relevance(bank)
        used = np.unique(relevance.tools[relevance.tools >= 0])
        self.tools = bank.tool_names
        self.labels = np.full(len(self.tools), -1, np.int64)
        self.labels[used] = np.arange(len(used))
        self.shares = np.ones(len(self.tools))
        self.prior = Tool2VecRetriever(Tool2VecConfig(encoder=self.config.encoder))
        self.prior.fit(bank)
        self.classifier = self.tokenizer = self.network = None
        weight = _WEIGHTS[0]
        trainings: dict[str, Training] = {}
        if len(used):
            weight, trainings = self._train(bank, relevance, context)
        self.card = make_card(
            self.config,
            method=f"{_DESCRIPTION} Tool2Vec counts like {weight:g} queries.",
            counts={
                "tools": len(self.tools),
                "tools with a label": len(used),
                **({"train queries": len(relevance.queries)} if trainings else {}),
            },
            trainings=trainings,
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and log-odds of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return rank_blocks(
            lambda rows: _mix(*self._both_log_odds(queries[rows]), self.shares),
            self.draw_ties(queries),
            k,
        )

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add tools by their descriptions."""
        self.prior = self.prior.add_tools(tools)
        self.labels = np.append(self.labels, np.full(len(tools), -1, np.int64))
        self.shares = np.append(self.shares, np.ones(len(tools)))

    def take_asks(self, asked: Relevance) -> None:
        """Use asks for added tools in Tool2Vec."""
        self.prior.take_asks(asked)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some of the tools."""
        super().keep(rows)
        self.prior = self.prior.pick_tools(rows.tolist())
        used = np.flatnonzero(self.labels >= 0)
        if not len(used):
            self.classifier = self.tokenizer = self.network = None
        elif self.classifier is not None:
            from toolbank.retrievers.mlc.network import VectorClassifier

            if isinstance(self.classifier, VectorClassifier):
                self.classifier = self.classifier.keep(self.labels[used])
                self.labels[used] = np.arange(len(used))

    def save_parts(self, folder: Path) -> None:
        """Write the classifier and Tool2Vec; a frozen encoder is named, not copied."""
        from toolbank.retrievers.mlc.network import VectorClassifier, save_classifier
        from toolbank.retrievers.network import save_network

        self.prior.save_state(folder / _PRIOR)
        if isinstance(self.classifier, VectorClassifier):
            save_network(folder / _MODEL, self.classifier)
        elif self.classifier is not None and self.tokenizer is not None:
            save_classifier(folder / _MODEL, self.classifier, self.tokenizer)

    def load_parts(self, folder: Path) -> None:
        """Read what `save_parts` wrote.

        Raises:
            InputError: a file is missing or damaged.
        """
        used = np.flatnonzero(self.labels >= 0)
        self.classifier = self.tokenizer = self.network = None
        if (folder / _PRIOR / CONFIG).is_file():
            prior = load_retriever(folder / _PRIOR)
            assert isinstance(prior, Tool2VecRetriever)
            demand(prior.tools == self.tools, folder / _PRIOR, "of other tools")
            self.prior = prior
            if len(used):
                self.network = OnnxNetwork(folder / _MODEL)
            return
        self.prior = Tool2VecRetriever(Tool2VecConfig(encoder=self.config.encoder))
        self.prior.tools = self.tools
        self.prior.load_state(folder / _PRIOR, {"tools": len(self.tools)})
        if len(used):
            self._load_classifier(folder / _MODEL, used)

    def pack_config(self, folder: Path, packing: Packing) -> MlcConfig:  # noqa: ARG002
        """Keep the settings: `pack_parts` writes the networks."""
        return self.config

    def pack_parts(self, folder: Path, packing: Packing) -> None:
        """Write Tool2Vec, and the classifier as ONNX."""
        self.prior.pack(folder / _PRIOR, packing)
        if self.network is not None:
            self.network.write(folder / _MODEL)
        if self.classifier is None:
            return
        from toolbank.encoders.onnx_export import export_head, export_network

        packing.networks.append(folder / _MODEL)
        if self.tokenizer is None:
            width = self.prior.vectors.shape[1]
            export_head(folder / _MODEL, self.classifier, width, packing.precision)
            return
        export_network(
            folder / _MODEL,
            self.classifier,
            self.tokenizer,
            self._longest,
            self.classifier.last.out_features,
            packing.precision,
        )

    def _load_classifier(self, folder: Path, used: NDArray[np.int64]) -> None:
        from toolbank.retrievers.mlc.network import VectorClassifier, load_classifier
        from toolbank.retrievers.network import load_weights

        known = self.labels[used]
        if self.config.frozen:
            in_turn = int(known.max()) < len(known)
            demand(in_turn, folder.parent / ARRAYS, "labels that are not one of each")
            dimension = self.prior.vectors.shape[1]
            self.classifier = VectorClassifier(dimension, len(known))
            load_weights(folder, self.classifier)
            return
        classifier, self.tokenizer = load_classifier(folder)
        names = classifier.model.config.id2label
        same = all(names.get(int(self.labels[i])) == self.tools[i] for i in used)
        demand(same, folder, "of other tools")
        self.classifier = classifier

    def _train(
        self, bank: Bank, relevance: Relevance, context: FitContext
    ) -> tuple[float, dict[str, Training]]:
        """Train on the queries; returns the weight of Tool2Vec, and the trainings."""
        import torch

        from toolbank.retrievers.mlc.network import (
            Collator,
            Objective,
            VectorClassifier,
            make_classifier,
            make_rows,
            prior_log_odds,
        )
        from toolbank.training.run import seed_weights, train_model

        seed_weights(context.seed)
        names = [self.tools[place] for place in np.flatnonzero(self.labels >= 0)]
        if self.config.frozen:
            width = self.prior.vectors.shape[1]
            self.classifier = VectorClassifier(width, len(names))
        else:
            encoder = locate(self.config.encoder)
            self.classifier, self.tokenizer = make_classifier(encoder, names)
        inputs = self._read(relevance.queries)
        # The last label is that of the padding.
        of_tool = np.append(self.labels, -1)
        rows = make_rows(
            inputs,
            of_tool[relevance.tools],
            of_tool[relevance.spared],
            relevance.weights,
        )
        counts = np.zeros(int(self.labels.max()) + 1)
        for row in rows:
            counts[row["labels"]] += row["weight"]
        uses = np.append(counts, 0.0)[self.labels]
        given = self.config.description_weight
        weight = _WEIGHTS[0] if given is None else given
        self.shares = _prior_shares(uses, weight)
        prior = prior_log_odds(
            torch.tensor(counts), sum(float(row["weight"]) for row in rows)
        )
        with torch.no_grad():
            self.classifier.last.bias.copy_(prior)
        trainings: dict[str, Training] = {}
        if not self.config.frozen:
            trainings["last layer alone"] = self._train_last(rows, context)
        queries = validation_queries(bank)
        trainings["classifier"] = train_model(
            Objective(self.classifier),
            rows,
            self.config.training,
            context,
            collate=Collator(self._batch, len(counts)),
            lengths=None if self.config.frozen else [len(row["input"]) for row in rows],
            validate=(lambda: validation_recall(self.search, bank))
            if queries
            else None,
            title=self.name,
        )
        if given is None and queries:
            weight = self._choose_weight(find_relevance(bank, queries), uses)
            self.shares = _prior_shares(uses, weight)
        return weight, trainings

    def _choose_weight(self, wanted: Relevance, uses: NDArray[np.float64]) -> float:
        """The weight with the best recall on validation queries."""
        found: dict[float, list[Hits]] = {weight: [] for weight in _WEIGHTS}
        ties = self.draw_ties(wanted.queries)
        for block in blocks(len(wanted.queries), len(self.tools)):
            both = self._both_log_odds(wanted.queries[block])
            for weight, parts in found.items():
                mixed = _mix(*both, _prior_shares(uses, weight))
                parts.append(top_k(mixed, RECALL_AT, ties.of(block)))
        return max(
            _WEIGHTS,
            key=lambda weight: mean_recall(join(found[weight], RECALL_AT), wanted),
        )

    def _train_last(self, rows: Rows, context: FitContext) -> Training:
        """Train the last layer on the features of the original encoder."""
        from toolbank.retrievers.mlc.network import (
            Collator,
            LastLayer,
            Objective,
            VectorClassifier,
            stack_vectors,
        )
        from toolbank.training.run import train_model

        classifier = self.classifier
        assert classifier is not None
        assert not isinstance(classifier, VectorClassifier)
        inputs = [row["input"] for row in rows]
        width, n_labels = classifier.last.in_features, classifier.last.out_features
        features = self._apply(classifier.features, inputs, width)
        return train_model(
            Objective(LastLayer(classifier)),
            [{**row, "input": own} for row, own in zip(rows, features, strict=True)],
            suit_the_last_layer(self.config.training),
            context,
            collate=Collator(stack_vectors, n_labels),
            title=name_last_layer(self.config),
            part="last",
        )

    def _both_log_odds(
        self, queries: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Log-odds by Tool2Vec, and by the classifier; 0 without a label."""
        prior = self.prior.log_odds(queries)
        classified = np.zeros(prior.shape, np.float32)
        if self.classifier is not None or self.network is not None:
            used = np.flatnonzero(self.labels >= 0)
            classified[:, used] = self._logits(queries)[:, self.labels[used]]
        return prior, classified

    def _logits(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """The classifier's [n, n_labels], with dropout off."""
        if self.network is not None and self.config.frozen:
            return self.network.run(vectors=self.prior.encoder.encode_queries(queries))
        if self.network is not None:
            return self.network.run_texts(self._prefixed(queries))
        assert self.classifier is not None
        n_labels = self.classifier.last.out_features
        return self._apply(self.classifier, self._read(queries), n_labels)

    def _apply(
        self, of_batch: Callable[..., torch.Tensor], inputs: Sequence[Any], width: int
    ) -> NDArray[np.float32]:
        """Apply the classifier, or a part of it, to inputs: [n, width]; dropout is off."""
        from toolbank.retrievers.network import run_batches

        assert self.classifier is not None
        lengths, size = list(map(len, inputs)), self.config.encoder.batch_size
        return run_batches(
            self.classifier, of_batch, inputs, lengths, size, self._batch, width
        )

    def _read(self, queries: Sequence[str]) -> Sequence[Any]:
        """What the classifier reads of each query: token ids, or a vector."""
        from toolbank.training.text import tokenise

        encoder = self.config.encoder
        if self.tokenizer is None:
            return list(load_encoder(encoder).encode_queries(queries))
        return tokenise(self.tokenizer, self._prefixed(queries), self._longest)

    def _prefixed(self, queries: Sequence[str]) -> list[str]:
        return [*map(self.config.encoder.as_query, queries)]

    @property
    def _longest(self) -> int:
        """Tokens that the classifier reads of a query."""
        assert self.tokenizer is not None
        longest: int = self.tokenizer.model_max_length
        return min(self.config.training.max_length, longest)

    def _batch(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """Results of `_read` as the classifier's arguments."""
        from toolbank.retrievers.mlc.network import stack_vectors
        from toolbank.training.text import pad, pad_id

        if self.tokenizer is None:
            return stack_vectors(inputs)
        return pad(inputs, pad_id(self.tokenizer))


def _prior_shares(uses: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Weight [n_tools] of Tool2Vec: weight / (weight + uses), and 1 without any use."""
    return np.where(uses > 0, weight / np.maximum(weight + uses, 1e-9), 1.0)


def _mix(
    prior: NDArray[np.float64],
    classified: NDArray[np.float32],
    shares: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Log-odds [n, n_tools], rounded so that they do not depend on the batch."""
    mixed = shares * prior + (1 - shares) * classified
    return np.round(mixed, 6).astype(np.float32)
