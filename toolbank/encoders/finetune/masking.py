"""Which texts of a batch are no negatives of an anchor, because they share a tool with it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from toolbank.encoders.finetune.texts import Rows, share_tool


class SharedTools:
    """Knows by the numbers of a batch's rows which candidates share a tool with which anchor.

    `rows` [n_rows, 1 + n] are positions of texts: the anchor, its positive, its negatives;
    `tools` [n_texts, most] those of the tools that each text is about, padded with -1.
    """

    def __init__(self, rows: Rows, tools: Rows) -> None:
        self._rows = rows
        self._tools = tools

    def excluded(self, numbers: Tensor, anchors: slice) -> Tensor:
        """Whether to leave a candidate out of an anchor's softmax: bool [b, m].

        The rows `numbers` [batch] are of the batch, `anchors` [b] a part of them. Candidates
        stand as the losses put them together: all positives, then all first negatives, and
        so on. An anchor's own positive is never left out.
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
    """Cross-entropy [b] of each anchor's own candidate among those not excluded.

    Scores are scaled cosines of `anchors` [b, d] with `candidates` [m, d]; `own` [b] are the
    columns of the positives. Multiple negatives ranking (arXiv 1705.00652, section 4.4), but
    for the exclusion.
    """
    from sentence_transformers.util import cos_sim

    scores = scale * cos_sim(anchors, candidates)
    scores = scores.masked_fill(excluded, -torch.inf)
    return torch.nn.functional.cross_entropy(scores, own, reduction="none")
