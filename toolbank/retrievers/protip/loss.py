"""ProTIP's step queries and contrastive loss (arXiv 2312.10332, equations 1 and 3)."""

import torch
from torch import Tensor


def step_queries(queries: Tensor, tools: Tensor) -> Tensor:
    """What each step of a plan asks for: x_j = E(q) - sum of E(t_i) over i < j (eq. 1).

    `queries` [n, d] are the requests' vectors, `tools` [n, steps, d] those of their tools in
    call order, zeros after a plan's end. Returns [n, steps, d].
    """
    before = tools.cumsum(dim=1) - tools
    return queries[:, None, :] - before


def contrastive_losses(distances: Tensor, is_positive: Tensor, margin: float) -> Tensor:
    """The loss of each pair: y D^2 / 2 + (1 - y) max(0, m - D)^2 / 2 (eq. 3).

    Hadsell, Chopra and LeCun 2006. `distances` are D >= 0, and `is_positive` y, of one shape.
    """
    near = distances.square() / 2
    far = (margin - distances).clamp(min=0).square() / 2
    return torch.where(is_positive, near, far)


def plan_loss(
    queries: Tensor,
    tools: Tensor,
    plans: Tensor,
    positives: Tensor,
    negatives: Tensor,
    margin: float,
) -> Tensor:
    """The mean over all steps of the mean of a step's positive pairs and that of its negative ones.

    `queries` [n, d] and `tools` [m, d] are vectors, `plans` [n, steps] the places in `tools`
    of each request's tools in call order, padded with -1; `positives` and `negatives`
    [n, steps, m] say which tools serve a step and which are none of it. Published is one random
    negative pair beside a positive one. Here the mean of several weighs as much as that one;
    which they are is the caller's.
    """
    there = plans >= 0
    own = tools[plans.clamp(min=0)] * there[:, :, None]
    asked = step_queries(queries, own)[there]
    near, far = positives[there], negatives[there]
    distances = torch.cdist(asked, tools, compute_mode="donot_use_mm_for_euclid_dist")
    losses = contrastive_losses(distances, near, margin)
    positive = (losses * near).sum(dim=1) / near.sum(dim=1)
    negative = (losses * far).sum(dim=1) / far.sum(dim=1).clamp(min=1)
    return (positive + negative).mean()
