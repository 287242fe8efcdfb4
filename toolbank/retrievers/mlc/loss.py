"""The loss of multi-label classification."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits


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

    What a classifier's bias begins with: most labels hold for few examples, and without it the
    first epochs go into learning just that. Half an example is added to either side.
    """
    return torch.log((counts + 0.5) / (total - counts + 0.5))
