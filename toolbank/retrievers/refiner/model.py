"""The network of ToolRefiner (arXiv 2409.02141, section 4.3)."""

from __future__ import annotations

import torch
from torch import nn

from toolbank.retrievers.refiner.sequence import Body, read_together

_SPREAD = 0.2
_FEATURES = 2


class RefinerModel(nn.Module):
    """A logit for each candidate of a request, all of them from one pass of the body.

    A candidate's input is W v, with v [dimension] its tool's vector and W drawn from
    N(0, 0.2). Its logit is h w + s u + b, with h the state at its place and s [2] its features
    in the first stage (`first_stage_features`). At the start w is zero.
    """

    def __init__(self, body: Body, dimension: int) -> None:
        super().__init__()
        width = body.get_input_embeddings().embedding_dim
        self.body = body
        self.project = nn.Linear(dimension, width, bias=False)
        self.head = nn.Linear(body.config.hidden_size, 1, bias=False)
        self.first_stage = nn.Linear(_FEATURES, 1)
        nn.init.normal_(self.project.weight, std=_SPREAD)
        nn.init.zeros_(self.head.weight)

    def start_from(self, slopes: torch.Tensor, intercept: float) -> None:
        """Set u [2] and b: what the first stage says of a candidate before any training."""
        with torch.no_grad():
            self.first_stage.weight.copy_(slopes[None])
            self.first_stage.bias.fill_(intercept)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        vectors: torch.Tensor,
        features: torch.Tensor,
        candidate_mask: torch.Tensor,
        labels: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Logits [b, n], and with `labels` [b, n] the loss: binary cross-entropy.

        `input_ids` and `attention_mask` [b, l] are the request's tokens, `vectors`
        [b, n, dimension] and `features` [b, n, 2] the candidates'. Where `candidate_mask`
        [b, n] is 0 there is none: its logit says nothing, and the loss, the mean over all
        real candidates, each times its request's of `weights` [b], leaves it out, as it does one
        whose label is -1.
        """
        words = self.body.get_input_embeddings()(input_ids)
        tools = self.project(vectors)
        states = read_together(self.body, words, tools, attention_mask, candidate_mask)
        # In 32 bits: the scores of near candidates differ by less than 16 can tell.
        with torch.autocast(states.device.type, enabled=False):
            logits = self.head(states.float()) + self.first_stage(features.float())
            logits = logits[..., 0]
        if labels is None or weights is None:
            return {"logits": logits}
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, labels.float(), reduction="none"
        )
        counts = candidate_mask * (labels >= 0) * weights.float()[:, None]
        # A batch may be of requests for which the first stage found nothing.
        total = counts.sum().clamp_min(1e-9)
        return {"loss": (losses * counts).sum() / total, "logits": logits}
