"""Fine-tune a sentence encoder on queries and the tools that they use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from toolbank.encoders.finetune_data import (
    Rows,
    TrainingTexts,
    demand_rows,
    draw_negatives,
    draw_pairs,
    mine_negatives,
)
from toolbank.encoders.location import locate
from toolbank.encoders.model import SentenceEncoder, load_model
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.training.run import Training, train_encoder

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from toolbank.training.config import TrainingContext


def fine_tune(
    config: SentenceConfig,
    training: EncoderTraining,
    texts: TrainingTexts,
    context: TrainingContext,
    validate: Callable[[SentenceEncoder], float] | None,
    title: str,
) -> tuple[SentenceEncoder, Training, dict[str, int]]:
    """Train a copy of an encoder so that texts about the same tools are near each other.

    Returns the encoder, its training, and the counts of its data.

    `validate` returns Recall@5 on validation for an encoder; the weights of the best epoch are kept.
    `title` names the progress.

    Raises:
        InputError: the queries give no pair, or the encoder cannot be read or trained.
    """
    model = load_model(locate(config))
    longest = model.max_seq_length or training.max_length
    if longest != math.inf:
        model.max_seq_length = min(longest, training.max_length)
    rows, counts = make_rows(config, training, texts, context.seed)
    trained = train_encoder(
        model,
        texts.texts,
        rows,
        make_loss(model, training, rows, texts),
        training,
        context,
        validate=None
        if validate is None
        else lambda: validate(SentenceEncoder(model, config)),
        title=title,
        part="encoder",
    )
    return SentenceEncoder(model, config), trained, counts


def make_rows(
    config: SentenceConfig, training: EncoderTraining, texts: TrainingTexts, seed: int
) -> tuple[Rows, dict[str, int]]:
    """Draw positions [n_rows, 2 + n_negatives] of anchor, positive and negatives; and counts.

    Raises:
        InputError: there is no pair, or no pair has a negative.
    """
    pairs = draw_pairs(texts, training.pairs, seed)
    used = (texts.tools[: texts.n_queries] >= 0).any(axis=1)
    counts = {
        "pairs": len(pairs),
        "train queries in no pair": int(texts.n_queries - len(np.unique(pairs[:, 0]))),
        "train queries without a tool of the bank": int((~used).sum()),
    }
    negatives = np.zeros((len(pairs), 0), np.int64)
    if training.hard_negatives:
        vectors = _encode(config, texts)
        negatives = mine_negatives(texts, pairs, vectors, training.hard_negatives)
    elif training.loss == "triplet":
        negatives = draw_negatives(texts, pairs, seed)[:, None]
    rows = np.concatenate([pairs, negatives], axis=1)
    if training.loss == "triplet":
        found = rows[:, 2] != rows[:, 1]
        counts["pairs without a negative"] = int((~found).sum())
        rows = rows[found]
    demand_rows(len(rows), training, texts.n_queries)
    return rows, counts


def make_loss(
    model: SentenceTransformer,
    training: EncoderTraining,
    rows: Rows,
    texts: TrainingTexts,
) -> torch.nn.Module:
    """Make the configured loss; all compare by cosine, as the search does."""
    from sentence_transformers.sentence_transformer.losses import (
        TripletDistanceMetric,
        TripletLoss,
    )

    from toolbank.encoders.ranking_loss import (
        CachedMaskedRankingLoss,
        MaskedRankingLoss,
        SharedTools,
    )

    loss: torch.nn.Module
    if training.loss == "triplet":
        loss = TripletLoss(model, TripletDistanceMetric.COSINE, training.margin)
        return loss
    shared = SharedTools(rows, texts.related)
    if training.mini_batch:
        loss = CachedMaskedRankingLoss(
            model, shared, training.scale, training.mini_batch
        )
    else:
        loss = MaskedRankingLoss(model, shared, training.scale)
    return loss


def _encode(
    config: SentenceConfig, texts: TrainingTexts
) -> np.typing.NDArray[np.float32]:
    """Unit vectors [n_texts, d] of texts with prefixes, by the encoder before its training."""
    bare = config.model_copy(update={"query_prefix": "", "document_prefix": ""})
    return SentenceEncoder(load_model(locate(config)), bare).encode_queries(texts.texts)
