"""MLC: retrieval as multi-label classification (arXiv 2409.02141, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.encoders.sentence import load_encoder
from toolbank.ranking.topk import Hits, blocks, join, top_k
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.fallback import SHAPES, Fallback
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.mlc.classifier import (
    Classifier,
    LastLayer,
    Objective,
    VectorClassifier,
)
from toolbank.retrievers.mlc.config import MlcConfig
from toolbank.retrievers.mlc.examples import Collator, Rows, make_rows, stack_vectors
from toolbank.retrievers.mlc.loss import prior_log_odds
from toolbank.retrievers.mlc.mixing import (
    USUAL_WEIGHT,
    WEIGHTS,
    description_shares,
    mix,
)
from toolbank.retrievers.mlc.store import (
    load_classifier,
    load_head,
    make_classifier,
    save_classifier,
)
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.store import load_head as load_names
from toolbank.retrievers.usage import Usage, find_usage, train_usage
from toolbank.retrievers.validation import (
    RECALL_AT,
    mean_recall,
    validation_queries,
    validation_recall,
)
from toolbank.system.errors import InputError
from toolbank.training.card import keep_card, read_card, write_card
from toolbank.training.config import TrainingConfig
from toolbank.training.ranks import world_size
from toolbank.training.run import Training, seed_weights, train_model
from toolbank.training.text import batches_by_length, pad, pad_id, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MODEL = "model"
_FOLDS, _FROZEN_FOLDS = 2, 5
# Of the last layer's own training: quick, as only a matrix is trained on features that stay.
_HEAD_EPOCHS, _HEAD_BATCH, _HEAD_LEARNING_RATE = 20, 128, 5e-3
_DESCRIPTION = (
    "MLC (arXiv 2409.02141): a classifier with a label for each tool, trained by binary "
    "cross-entropy; tools that no train query uses are found by their descriptions."
)


class MlcRetriever:
    """A classifier with a label for each tool that a train query uses; all labels independent.

    Scores are log-odds: the classifier's, mixed with those by the tool's description (see
    `Fallback`), which counts like `description_weight` queries that use the tool: much where few
    do, and alone where none does. Unless given, that weight is the one with the best Recall@5 on
    validation queries. The classifier is an encoder with a linear layer on
    [CLS], or on the mean of the tokens for encoders trained so; with `frozen` it is a head of
    two layers on the encoder's vectors. Trained by binary cross-entropy, each label's bias
    beginning at its prior log-odds; a query by the `rules` engine counts for a quarter.

    Where the encoder is trained, the linear layer is first trained alone, on what the encoder
    as it is gives it to read; then all weights are, from there (LP-FT, arXiv 2202.10054). A
    layer that is still random would pull the encoder away from what it knows.
    """

    def __init__(self, config: MlcConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        # Each tool's label; -1 without one.
        self._labels: NDArray[np.int64] = np.zeros(0, np.int64)
        # Each tool's description's in its log-odds.
        self._shares: NDArray[np.float64] = np.ones(0)
        self._weight = USUAL_WEIGHT
        self._fallback: Fallback | None = None
        self._classifier: Classifier | None = None
        self._tokenizer: PreTrainedTokenizerBase | None = None
        self._trainings: dict[str, Training] = {}
        self._card = ""
        self._n_train = 0

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Train the classifier; the best epoch by Recall@5 on validation queries stays.

        Raises:
            InputError: the encoder can't be had or read, or a setting is not for this machine.
        """
        usage = train_usage(bank)
        used = np.unique(usage.tools[usage.tools >= 0])
        self.tools = tuple(tool.name for tool in bank.tools)
        self._n_train = len(usage.queries)
        self._labels = np.full(len(self.tools), -1, np.int64)
        self._labels[used] = np.arange(len(used))
        self._shares = np.ones(len(self.tools))
        self._fallback = Fallback.fit(self.config.encoder, bank.tools, usage)
        self._classifier = self._tokenizer = None
        self._trainings, self._card = {}, ""
        if len(used):
            self._train(bank, usage, context)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and log-odds of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        n = len(self.tools)
        parts = [
            top_k(self._log_odds(queries[block]), k)
            for block in blocks(len(queries), n)
        ]
        return join(parts, min(k, n))

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query by a classifier that was trained without it."""
        folds = _FROZEN_FOLDS if self.config.frozen else _FOLDS
        return cross_fit(self.config, bank, k, context, folds=folds)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found by their descriptions; nothing is trained.

        Raises:
            InputError: one of them is there already.
        """
        self.tools = join_names(self.tools, tools)
        self._fitted_fallback().add_tools(tools)
        self._labels = np.append(self._labels, np.full(len(tools), -1, np.int64))
        self._shares = np.append(self._shares, np.ones(len(tools)))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; a frozen encoder is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(
            folder,
            {
                **self._fitted_fallback().arrays(),
                "labels": self._labels,
                "shares": self._shares,
            },
        )
        if self._classifier is not None:
            save_classifier(folder / _MODEL, self._classifier, self._tokenizer)
        if self._card:
            keep_card(folder, self._card)
            return
        write_card(
            folder,
            self.config,
            method=f"{_DESCRIPTION} A description counts like {self._weight:g} queries.",
            counts={
                "tools": len(self.tools),
                "tools with a label": int((self._labels >= 0).sum()),
                **({"train queries": self._n_train} if self._trainings else {}),
            },
            trainings=self._trainings,
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_names(folder, MlcConfig)
        retriever = cls(config)
        retriever.tools, retriever._card = tools, read_card(folder)
        of_tools = {"labels": (len(tools),), "shares": (len(tools),)}
        arrays = load_arrays(folder, {**SHAPES, **of_tools})
        retriever._fallback = Fallback.from_arrays(
            config.encoder, arrays, len(tools), folder
        )
        path = folder / VECTORS
        demand(
            within(arrays["labels"], -1, len(tools)), path, "labels out of their range"
        )
        labels = arrays["labels"].astype(np.int64, copy=False)
        n_labels = int((labels >= 0).sum())
        one_of_each = np.array_equal(np.unique(labels[labels >= 0]), range(n_labels))
        demand(one_of_each, path, "labels that are not one of each")
        retriever._labels = labels
        shares = arrays["shares"].astype(np.float64, copy=False)
        in_range = bool(((shares >= 0) & (shares <= 1)).all())
        demand(in_range, path, "shares out of their range")
        retriever._shares = shares
        if n_labels and config.frozen:
            retriever._classifier = load_head(
                folder / _MODEL, arrays["descriptions"].shape[1], n_labels
            )
        elif n_labels:
            retriever._classifier, retriever._tokenizer = load_classifier(
                folder / _MODEL, n_labels
            )
        return retriever

    def _train(self, bank: Bank, usage: Usage, context: FitContext) -> None:
        seed_weights(context.seed)
        self._classifier = self._make_classifier(bank)
        inputs = self._read(usage.queries)
        # The last label is that of the padding.
        labels = np.append(self._labels, -1)[usage.tools]
        rows = make_rows(inputs, labels, usage.weights)
        counts = np.zeros(int(self._labels.max()) + 1)
        for row in rows:
            counts[row["labels"]] += row["weight"]
        uses = np.append(counts, 0.0)[self._labels]
        given = self.config.description_weight
        self._weight = USUAL_WEIGHT if given is None else given
        self._shares = description_shares(uses, self._weight)
        prior = prior_log_odds(
            torch.tensor(counts), sum(float(row["weight"]) for row in rows)
        )
        with torch.no_grad():
            self._classifier.last.bias.copy_(prior)
        lengths = None
        if not isinstance(self._classifier, VectorClassifier):
            lengths = [len(row["input"]) for row in rows]
            self._trainings["last layer alone"] = self._train_last(rows, context)
        self._trainings["classifier"] = train_model(
            Objective(self._classifier),
            rows,
            self.config.training,
            context,
            collate=Collator(self._batch, len(counts)),
            lengths=lengths,
            validate=_validation(self, bank),
            title=self.name,
        )
        if given is None:
            self._choose_weight(bank, uses)

    def _choose_weight(self, bank: Bank, uses: NDArray[np.float64]) -> None:
        """Take the shares by the weight that is best on validation queries, if there are any."""
        queries = validation_queries(bank)
        if not queries:
            return
        wanted = find_usage(bank, queries)
        found: dict[float, list[Hits]] = {weight: [] for weight in WEIGHTS}
        for block in blocks(len(queries), len(self.tools)):
            described, classified = self._both_log_odds(wanted.queries[block])
            for weight, parts in found.items():
                shares = description_shares(uses, weight)
                parts.append(top_k(mix(described, classified, shares), RECALL_AT))
        self._weight = max(
            WEIGHTS,
            key=lambda weight: mean_recall(join(found[weight], RECALL_AT), wanted),
        )
        self._shares = description_shares(uses, self._weight)

    def _train_last(self, rows: Rows, context: FitContext) -> Training:
        """Train the last layer on the features that the encoder gives as it is."""
        classifier = self._classifier
        assert classifier is not None
        assert not isinstance(classifier, VectorClassifier)
        inputs = [row["input"] for row in rows]
        width, n_labels = classifier.last.in_features, classifier.last.out_features
        features = self._apply(classifier.features, inputs, width)
        return train_model(
            Objective(LastLayer(classifier)),
            [{**row, "input": own} for row, own in zip(rows, features, strict=True)],
            _suit_the_last_layer(self.config.training),
            context,
            collate=Collator(stack_vectors, n_labels),
            title=f"{self.name}: last layer",
            part="last",
        )

    def _make_classifier(self, bank: Bank) -> Classifier:
        used = np.flatnonzero(self._labels >= 0)
        if self.config.frozen:
            dimension = self._fitted_fallback().vectors.shape[1]
            return VectorClassifier(dimension, len(used))
        names = [bank.tools[place].name for place in used]
        classifier, self._tokenizer = make_classifier(self.config.encoder.model, names)
        return classifier

    def _log_odds(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Log-odds [n, n_tools]."""
        return mix(*self._both_log_odds(queries), self._shares)

    def _both_log_odds(
        self, queries: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Those by the descriptions and those by the classifier, 0 without a label."""
        described = self._fitted_fallback().log_odds(queries)
        classified = np.zeros_like(described)
        if self._classifier is not None:
            used = np.flatnonzero(self._labels >= 0)
            classified[:, used] = self._logits(queries)[:, self._labels[used]]
        return described, classified

    def _logits(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """The classifier's [n, n_labels], with dropout off."""
        assert self._classifier is not None
        n_labels = self._classifier.last.out_features
        return self._apply(self._classifier, self._read(queries), n_labels)

    def _apply(
        self, of_batch: Callable[..., torch.Tensor], inputs: Sequence[Any], width: int
    ) -> NDArray[np.float32]:
        """What the classifier, or a part of it, gives of inputs: [n, width]; dropout off."""
        assert self._classifier is not None
        has_gpu = torch.cuda.is_available()
        device = (
            torch.device("cuda") if has_gpu else self._classifier.last.weight.device
        )
        self._classifier.to(device).eval()
        found = np.zeros((len(inputs), width), np.float32)
        lengths = [len(given) for given in inputs]
        with torch.inference_mode():
            for batch in batches_by_length(lengths, self.config.encoder.batch_size):
                read = self._batch([inputs[place] for place in batch])
                on_device = {name: values.to(device) for name, values in read.items()}
                found[batch] = of_batch(**on_device).float().cpu().numpy()
        return found

    def _read(self, queries: Sequence[str]) -> Sequence[Any]:
        """What the classifier reads of each query: token ids, or a vector."""
        encoder = self.config.encoder
        if self._tokenizer is None:
            return list(load_encoder(encoder).encode_queries(queries))
        texts = [encoder.query_prefix + query for query in queries]
        longest = min(self.config.training.max_length, self._tokenizer.model_max_length)
        return tokenise(self._tokenizer, texts, longest)

    def _batch(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """What `_read` gave of some queries, as the classifier's arguments."""
        if self._tokenizer is None:
            return stack_vectors(inputs)
        return pad(inputs, pad_id(self._tokenizer))

    def _fitted_fallback(self) -> Fallback:
        if self._fallback is None:
            raise InputError(f"{self.name}: not fitted yet. First: toolbank train RUN.")
        return self._fallback


def _suit_the_last_layer(training: TrainingConfig) -> TrainingConfig:
    return training.model_copy(
        update={
            "epochs": _HEAD_EPOCHS,
            "batch_size": max(1, _HEAD_BATCH // world_size()),
            "accumulation": 1,
            "learning_rate": _HEAD_LEARNING_RATE,
        }
    )


def _validation(retriever: MlcRetriever, bank: Bank) -> Callable[[], float] | None:
    """What gives Recall@5 on the validation queries; None without any that has a tool."""
    if not validation_queries(bank):
        return None
    return lambda: validation_recall(retriever.search, bank)
