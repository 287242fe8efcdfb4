"""Classifiers of requests: a transformer with a linear layer, or a head on fixed vectors.

What the last layer of a transformer's reads, but for dropout, are its features [n, d].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from toolbank.retrievers.mlc.loss import multi_label_loss
from toolbank.retrievers.network import drop_pooler

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

    For sentence encoders, whose meaning lies there and not in [CLS].
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
