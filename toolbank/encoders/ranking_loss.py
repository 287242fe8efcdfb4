"""Multiple negatives ranking loss without false negatives, also for large batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor
from torch.nn.functional import pad

from toolbank.encoders.finetune_data import Rows, share_tool

# As many as the library makes of a batch of pairs. More would have less padding, but keep a GPU waiting.
_PARTS = 2


def embed_once(
    model: torch.nn.Module, columns: Sequence[dict[str, Tensor]]
) -> list[Tensor]:
    """Embed the texts of each column: vectors [batch, d].

    A column has `input_ids` and `attention_mask` [batch, longest], padded on the right. A text that
    occurs several times is embedded once: its gradients add up, and it has one dropout mask.
    """
    width = max(column["input_ids"].shape[1] for column in columns)
    ids, mask = (
        torch.cat([pad(c[name], (0, width - c[name].shape[1])) for c in columns])
        for name in ("input_ids", "attention_mask")
    )
    texts, places = torch.unique(ids * mask, dim=0, return_inverse=True)
    lengths = mask.new_zeros(len(texts)).index_copy_(0, places, mask.sum(dim=1))
    order = lengths.argsort(stable=True)
    vectors = []
    for part in order.chunk(_PARTS):
        longest = int(lengths[part[-1]])
        features = {
            "input_ids": texts[part, :longest],
            "attention_mask": (
                torch.arange(longest, device=mask.device) < lengths[part, None]
            ).to(mask.dtype),
        }
        vectors.append(model(features)["sentence_embedding"])
    found = torch.cat(vectors)[order.argsort()][places]
    return list(found.chunk(len(columns)))


class SharedTools:
    """Which candidates of a batch share a tool with which anchor.

    `rows` [n_rows, 1 + n] are positions of texts: the anchor, its positive and its negatives.
    `tools` [n_texts, most] are the tools of each text, padded with -1.
    """

    def __init__(self, rows: Rows, tools: Rows) -> None:
        self._rows = rows
        self._tools = tools

    def excluded(self, numbers: Tensor, anchors: slice) -> Tensor:
        """Whether an anchor's softmax excludes a candidate: bool [b, m].

        `numbers` [batch] are the rows of the batch, and `anchors` [b] select a part of them.
        Candidates are in the order of the losses: all positives, then all first negatives, and so
        on. An anchor's own positive is never excluded.
        """
        rows = self._rows[numbers.long().cpu().numpy()]
        own = np.arange(len(rows))[anchors]
        left, right = self._tools[rows[anchors, 0]], self._tools[rows[:, 1:].T.ravel()]
        shared = share_tool(left, right)
        shared[np.arange(len(left)), own] = False
        return torch.from_numpy(shared).to(numbers.device)


def ranking_losses(
    anchors: Tensor, candidates: Tensor, own: Tensor, excluded: Tensor, scale: float
) -> Tensor:
    """Compute the cross-entropy [b] of each anchor's own candidate among those not excluded.

    Scores are scaled cosines of `anchors` [b, d] with `candidates` [m, d]; `own` [b] are the
    columns of the positives. This is multiple negatives ranking (arXiv 1705.00652, section 4.4)
    with the exclusion added.
    """
    from sentence_transformers.util import cos_sim

    scores = scale * cos_sim(anchors, candidates)
    scores = scores.masked_fill(excluded, -torch.inf)
    return torch.nn.functional.cross_entropy(scores, own, reduction="none")


class CachedMaskedRankingLoss(CachedMultipleNegativesRankingLoss):
    """`MaskedRankingLoss` with the gradient caching of the library (arXiv 2101.06983).

    Loss and gradients are the same, with `mini_batch` texts in memory at once.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        shared: SharedTools,
        scale: float,
        mini_batch: int,
    ) -> None:
        super().__init__(model, scale=scale, mini_batch_size=mini_batch)
        self._shared = shared

    def calculate_loss(
        self,
        reps: list[list[Tensor]],
        labels: Tensor | None = None,
        *,
        with_backward: bool = False,
    ) -> Tensor:
        """Compute the mean over a batch of embedded mini-batches, and its gradients if requested."""
        assert labels is not None
        anchors, *others = (torch.cat(parts) for parts in reps)
        candidates = torch.cat(others)
        columns = torch.arange(len(anchors), device=anchors.device)
        total = torch.zeros((), device=anchors.device)
        for start in range(0, len(anchors), self.mini_batch_size):
            part = slice(start, start + self.mini_batch_size)
            excluded = self._shared.excluded(labels, part)
            losses = ranking_losses(
                anchors[part], candidates, columns[part], excluded, self.scale
            )
            loss = losses.sum() / len(anchors)
            if with_backward:
                loss.backward()  # type: ignore[no-untyped-call]
                loss = loss.detach()
            total = total + loss
        return total


class MaskedRankingLoss(MultipleNegativesRankingLoss):
    """The library's loss without candidates that share a tool with the anchor.

    The labels of a batch are the numbers of its rows. A text in several rows is embedded once.
    """

    def __init__(
        self, model: SentenceTransformer, shared: SharedTools, scale: float
    ) -> None:
        super().__init__(model, scale=scale)
        self._shared = shared

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor
    ) -> Tensor:
        """Compute the mean over the batch from the tokens of its columns."""
        embeddings = embed_once(self.model, list(sentence_features))
        return self.compute_loss_from_embeddings(embeddings, labels)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor
    ) -> Tensor:
        """Compute the mean over the batch from `embeddings` [batch, d] of each column."""
        anchors, *others = embeddings
        own = torch.arange(len(anchors), device=anchors.device)
        excluded = self._shared.excluded(labels, slice(None))
        return ranking_losses(
            anchors, torch.cat(others), own, excluded, self.scale
        ).mean()
