"""The classifier of MLC: network, loss, batches, creation and loading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from toolbank.encoders.model import find_model, reading_model
from toolbank.retrievers.network import (
    drop_pooler,
    load_network,
    make_transformer,
    read_architecture,
    read_transformer,
    save_network,
)
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Rows = list[dict[str, Any]]


def make_rows(
    inputs: Sequence[Any],
    labels: NDArray[np.int64],
    spared: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Rows:
    """Make a row per labelled query: the model's input, the labels, and the weight.

    `labels` [n, most] and `spared` [n, any], the labels that do not count, are padded with -1;
    `weights` [n].
    """
    return [
        {
            "input": given,
            "labels": own[own >= 0],
            "spared": others[others >= 0],
            "weight": float(weight),
        }
        for given, own, others, weight in zip(
            inputs, labels, spared, weights, strict=True
        )
        if (own >= 0).any()
    ]


def stack_vectors(vectors: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """Stack vectors as the argument of a model that reads vectors."""
    return {"vectors": torch.from_numpy(np.stack(vectors))}


class Collator:
    """Collates rows; `batch` turns their inputs into arguments of the model."""

    def __init__(
        self, batch: Callable[[list[Any]], dict[str, torch.Tensor]], n_labels: int
    ) -> None:
        self._batch = batch
        self._n_labels = n_labels

    def __call__(self, rows: Rows) -> dict[str, torch.Tensor]:
        """The model's arguments, and `labels` [n, n_labels] and `weights` [n]."""
        labels = torch.zeros(len(rows), self._n_labels)
        for place, row in zip(labels, rows, strict=True):
            place[torch.from_numpy(row["spared"])] = -1
            place[torch.from_numpy(row["labels"])] = 1
        weights = torch.tensor([row["weight"] for row in rows])
        inputs = self._batch([row["input"] for row in rows])
        return {**inputs, "labels": labels, "weights": weights}


def multi_label_loss(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Binary cross-entropy of independent labels, summed over the labels of an example.

    `logits` and `labels` are [n, n_labels], labels 0 or 1, or -1 where neither is to be learnt; the
    mean over the examples, each times its own of `weights` [n], is given (arXiv 2409.02141,
    section 4.2). Taken in 32 bits.
    """
    losses = binary_cross_entropy_with_logits(
        logits.float(), labels.float(), reduction="none"
    ).masked_fill(labels < 0, 0)
    return (losses.sum(dim=1) * weights).mean()


def prior_log_odds(counts: torch.Tensor, total: float) -> torch.Tensor:
    """Log-odds [n_labels] of labels that hold for `counts` of `total` examples.

    The initial bias of a classifier. Most labels hold for few examples, and without it the first
    epochs learn only that. Half an example is added to either side.
    """
    return torch.log((counts + 0.5) / (total - counts + 0.5))


_HIDDEN = 1024
_DROPOUT = 0.2


class VectorClassifier(nn.Module):
    """Two layers on vectors [n, d] of an encoder that is not trained; logits [n, n_labels]."""

    def __init__(self, dimension: int, n_labels: int) -> None:
        super().__init__()
        self.first = nn.Linear(dimension, _HIDDEN)
        self.dropout = nn.Dropout(_DROPOUT)
        self.last = nn.Linear(_HIDDEN, n_labels)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Logits [n, n_labels]."""
        hidden = nn.functional.gelu(self.first(vectors))
        logits: torch.Tensor = self.last(self.dropout(hidden))
        return logits

    def keep(self, labels: NDArray[np.int64]) -> VectorClassifier:
        """One with these labels alone, in this order; the first layer is shared."""
        kept = VectorClassifier(self.first.in_features, len(labels))
        kept.first = self.first
        with torch.no_grad():
            kept.last.weight.copy_(self.last.weight[labels])
            kept.last.bias.copy_(self.last.bias[labels])
        return kept.to(self.last.weight.device).eval()


class SequenceClassifier(nn.Module):
    """A transformers model for sequence classification, by [CLS]; logits [n, n_labels].

    As the paper has it: the architecture's own layers between [CLS] and the last one.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @property
    def weighted(self) -> nn.Module:
        """The module whose weights are saved: transformers' own, so that it reads them."""
        module: nn.Module = self.model
        return module

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the logits."""
        head = self.model.classifier
        return [m for m in head.modules() if isinstance(m, nn.Linear)][-1]

    @property
    def dropout(self) -> nn.Module:
        """What the features go through on their way to the last layer."""
        body = f"{self.model.base_model_prefix}."
        dropouts: list[nn.Module] = [
            module
            for name, module in self.model.named_modules()
            if isinstance(module, nn.Dropout) and not name.startswith(body)
        ]
        return [nn.Identity(), *dropouts][-1]

    def features(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """What the last layer reads [n, d], in evaluation mode."""
        read: list[torch.Tensor] = []
        hook = self.last.register_forward_pre_hook(lambda _, given: read.extend(given))
        try:
            self(input_ids, attention_mask)
        finally:
            hook.remove()
        return read[0]

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits [n, n_labels]."""
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        logits: torch.Tensor = output.logits
        return logits


class MeanClassifier(nn.Module):
    """A linear layer on the mean of the tokens' states; logits [n, n_labels].

    For sentence encoders that are trained with mean pooling.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        drop_pooler(model)
        self.dropout = nn.Dropout(getattr(model.config, "hidden_dropout_prob", 0.1))
        self.last = nn.Linear(model.config.hidden_size, model.config.num_labels)

    @property
    def weighted(self) -> nn.Module:
        """The module whose weights are saved."""
        return self

    def features(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """The mean of the tokens' states [n, d]."""
        states = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        mean: torch.Tensor = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return mean

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits [n, n_labels]."""
        mean = self.features(input_ids, attention_mask)
        logits: torch.Tensor = self.last(self.dropout(mean))
        return logits


TransformerClassifier = SequenceClassifier | MeanClassifier
Classifier = VectorClassifier | TransformerClassifier


class LastLayer(nn.Module):
    """The last layer of a transformer's classifier, and its dropout; not a copy of them."""

    def __init__(self, classifier: TransformerClassifier) -> None:
        super().__init__()
        self.dropout = classifier.dropout
        self.last = classifier.last

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Logits [n, n_labels] of features [n, d]."""
        logits: torch.Tensor = self.last(self.dropout(vectors))
        return logits


class Objective(nn.Module):
    """A classifier in training: `labels` [n, n_labels] and `weights` [n] give its loss."""

    def __init__(self, classifier: Classifier | LastLayer) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(
        self, labels: torch.Tensor, weights: torch.Tensor, **inputs: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """The loss of a batch, and its logits [n, n_labels]."""
        logits = self.classifier(**inputs)
        return {"loss": multi_label_loss(logits, labels, weights), "logits": logits}


_SEQUENCE = "ForSequenceClassification"


def make_classifier(
    encoder: str, labels: Sequence[str]
) -> tuple[TransformerClassifier, PreTrainedTokenizerBase]:
    """Create a classifier on an encoder's transformer, still to be trained.

    Token states are averaged if the folder declares mean pooling, as most sentence encoders do;
    otherwise [CLS] is used, as in the paper.

    Raises:
        InputError: there is no such encoder, it cannot be found or read, or its architecture has
            no classifier with biases.
    """
    architecture = read_architecture(encoder)
    model, tokenizer = read_transformer(
        encoder,
        lambda folder: _choose_class(architecture, averages=_averages(folder)),
        problem_type="multi_label_classification",
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    if not type(model).__name__.endswith(_SEQUENCE):
        return MeanClassifier(model), tokenizer
    _check_head(model, encoder)
    return SequenceClassifier(model), tokenizer


def check_architecture(encoder: str) -> None:
    """Refuse an encoder that `make_classifier` cannot use; its weights are not read.

    Raises:
        InputError: as `make_classifier`.
    """
    architecture, folder = read_architecture(encoder), find_model(encoder)
    auto = _choose_class(architecture, averages=_averages(folder))
    remedy = "mlc cannot classify with it. Use another encoder, or `frozen: true`."
    with reading_model(folder, remedy), torch.device("meta"):
        model = make_transformer(architecture, auto)
    if type(model).__name__.endswith(_SEQUENCE):
        _check_head(model, encoder)


def _choose_class(architecture: Any, *, averages: bool) -> Any:
    """The Auto class of a transformer that is classified by [CLS] or by the mean of its tokens."""
    from transformers import (
        AutoModel,
        AutoModelForSequenceClassification,
        AutoModelForTextEncoding,
    )

    if not averages:
        return AutoModelForSequenceClassification
    # T5's own class has a decoder as well.
    names = (*(architecture.architectures or ()), "")
    is_half = architecture.is_encoder_decoder or names[0].endswith("EncoderModel")
    return AutoModelForTextEncoding if is_half else AutoModel


def save_classifier(
    folder: Path,
    classifier: TransformerClassifier,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write what `load_classifier` reads; one by [CLS] transformers reads as well."""
    config = classifier.model.config
    config.architectures = [type(classifier.model).__name__]
    save_network(folder, classifier.weighted, config, tokenizer)


def load_classifier(
    folder: Path,
) -> tuple[TransformerClassifier, PreTrainedTokenizerBase]:
    """Read a fine-tuned classifier; its configuration names the tool of each label.

    Raises:
        InputError: a file is missing or damaged, or the weights are another classifier's.
    """
    made: list[TransformerClassifier] = []

    def make(config: Any) -> torch.nn.Module:
        by_cls = config.architectures[0].endswith(_SEQUENCE)
        model = make_transformer(config, _choose_class(config, averages=not by_cls))
        made.append(SequenceClassifier(model) if by_cls else MeanClassifier(model))
        return made[0].weighted

    _, tokenizer = load_network(folder, make)
    return made[0].eval(), tokenizer


def _check_head(model: Any, encoder: str) -> None:
    """Require a last layer with biases, which start at the labels' prior log-odds."""
    head = getattr(model, "classifier", None)
    layers = head.modules() if isinstance(head, torch.nn.Module) else ()
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    if not linear or linear[-1].bias is None:
        raise InputError(
            f"encoder.model: {encoder} is of the type {model.config.model_type!r}, whose "
            "classifier mlc cannot train. Use another encoder, such as DeBERTa-v3, or train a "
            "head alone: `frozen: true`."
        )


def _averages(folder: Path) -> bool:
    """Whether a sentence-transformers folder pools by the mean; a plain one does not."""
    if not (folder / "modules.json").is_file():
        return False
    for module in read_json(folder / "modules.json"):
        if module["type"].endswith(".Pooling"):
            pooling = read_json(folder / module["path"] / "config.json")
            older = pooling.get("pooling_mode_mean_tokens", False)
            return bool(pooling.get("pooling_mode", "mean" if older else "") == "mean")
    return False
