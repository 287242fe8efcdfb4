"""Where classifiers come from: an encoder's folder, or their own, `model/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.encoders.model import find_model, has_tokenizer, reading
from toolbank.retrievers.mlc.classifier import (
    Classifier,
    MeanClassifier,
    SequenceClassifier,
    VectorClassifier,
)
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WEIGHTS = "model.safetensors"
_SEQUENCE = "ForSequenceClassification"


def make_classifier(
    encoder: str, labels: Sequence[str]
) -> tuple[Classifier, PreTrainedTokenizerBase]:
    """An encoder's transformer with a new last layer, still to be trained.

    Tokens' states are averaged where the folder says that the encoder was trained so, as most
    sentence encoders are; else [CLS] is taken, as the paper takes it.

    Raises:
        InputError: there is no such encoder, it can't be had or read, or its architecture has
            no classifier with biases.
    """
    from transformers import (
        AutoModel,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    folder = find_model(encoder)
    with reading(folder, "It needs config.json, a tokenizer, and safetensors."):
        averages = _averages(folder)
        kind = AutoModel if averages else AutoModelForSequenceClassification
        model = kind.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            problem_type="multi_label_classification",
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
        )
        if not averages:
            _check_head(model, encoder)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return (
            MeanClassifier(model) if averages else SequenceClassifier(model)
        ), tokenizer


def save_classifier(
    folder: Path, classifier: Classifier, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Write what `load_classifier` reads; one by [CLS] transformers reads as well."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(classifier, VectorClassifier):
        classifier.model.config.architectures = [type(classifier.model).__name__]
        classifier.model.config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    weights = {
        name: values.detach().cpu().contiguous()
        for name, values in _weighted(classifier).state_dict().items()
    }
    with atomic_path(folder / _WEIGHTS) as temporary:
        save_file(weights, temporary, metadata={"format": "pt"})


def load_classifier(
    folder: Path, n_labels: int
) -> tuple[Classifier, PreTrainedTokenizerBase]:
    """Read a fine-tuned classifier; no code that lies there is run, and nothing unpickled.

    Raises:
        InputError: a file is missing or damaged, or the weights are another classifier's.
    """
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    with reading(folder, "Fit it again: toolbank train RUN."):
        if not has_tokenizer(folder):
            raise ValueError("no tokenizer")
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        by_cls = config.architectures[0].endswith(_SEQUENCE)
        kind: Any = AutoModelForSequenceClassification if by_cls else AutoModel
        model = kind.from_config(config, trust_remote_code=False, dtype=torch.float32)
        classifier: Classifier = (
            SequenceClassifier(model) if by_cls else MeanClassifier(model)
        )
        _take_weights(folder, classifier, n_labels)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if len(tokenizer) > config.vocab_size:
            raise ValueError("a tokenizer with more tokens than the model has")
    return classifier, tokenizer


def load_head(folder: Path, dimension: int, n_labels: int) -> VectorClassifier:
    """Read a head on vectors [n, dimension].

    Raises:
        InputError: as of `load_classifier`.
    """
    classifier = VectorClassifier(dimension, n_labels)
    with reading(folder, "Fit it again: toolbank train RUN."):
        _take_weights(folder, classifier, n_labels)
    return classifier


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


def _take_weights(folder: Path, classifier: Classifier, n_labels: int) -> None:
    from safetensors.torch import load_file

    weights = load_file(folder / _WEIGHTS)
    if classifier.last.out_features != n_labels:
        raise ValueError(f"a classifier of {classifier.last.out_features} tools")
    _weighted(classifier).load_state_dict(weights)
    if not all(bool(torch.isfinite(values).all()) for values in weights.values()):
        raise ValueError("weights that are not finite")
    classifier.eval()


def _weighted(classifier: Classifier) -> Any:
    """The module whose weights are written: of one by [CLS], transformers' own."""
    by_cls = isinstance(classifier, SequenceClassifier)
    return classifier.model if by_cls else classifier


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
