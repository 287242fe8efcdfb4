"""Classifiers of an encoder's transformer: made anew, or of a configuration that is saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.retrievers.mlc.classifier import (
    MeanClassifier,
    SequenceClassifier,
    TransformerClassifier,
)
from toolbank.retrievers.network import (
    load_network,
    make_transformer,
    read_transformer,
    save_network,
)
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SEQUENCE = "ForSequenceClassification"


def make_classifier(
    encoder: str, labels: Sequence[str]
) -> tuple[TransformerClassifier, PreTrainedTokenizerBase]:
    """An encoder's transformer with a new last layer, still to be trained.

    Tokens' states are averaged where the folder says that the encoder was trained so, as most
    sentence encoders are; else [CLS] is taken, as the paper takes it.

    Raises:
        InputError: there is no such encoder, it can't be had or read, or its architecture has
            no classifier with biases.
    """
    from transformers import AutoModel, AutoModelForSequenceClassification

    def choose(folder: Path) -> Any:
        return AutoModel if _averages(folder) else AutoModelForSequenceClassification

    model, tokenizer = read_transformer(
        encoder,
        choose,
        problem_type="multi_label_classification",
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    if not type(model).__name__.endswith(_SEQUENCE):
        return MeanClassifier(model), tokenizer
    _check_head(model, encoder)
    return SequenceClassifier(model), tokenizer


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
    from transformers import AutoModel, AutoModelForSequenceClassification

    made: list[TransformerClassifier] = []

    def make(config: Any) -> torch.nn.Module:
        by_cls = config.architectures[0].endswith(_SEQUENCE)
        auto = AutoModelForSequenceClassification if by_cls else AutoModel
        model = make_transformer(config, auto)
        made.append(SequenceClassifier(model) if by_cls else MeanClassifier(model))
        return made[0].weighted

    _, tokenizer = load_network(folder, make)
    return made[0].eval(), tokenizer


def _check_head(model: Any, encoder: str) -> None:
    """Demand a last layer with biases, which begin at the labels' prior log-odds."""
    head = getattr(model, "classifier", None)
    layers = head.modules() if isinstance(head, torch.nn.Module) else ()
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    if not linear or linear[-1].bias is None:
        raise InputError(
            f"encoder.model: {encoder} is of the type {model.config.model_type!r}, whose "
            "classifier mlc can't train. Take another encoder, such as DeBERTa-v3, or train a "
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
