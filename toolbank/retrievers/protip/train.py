"""ProTIP's training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolbank.retrievers.base import FitContext
from toolbank.retrievers.protip.config import ProtipConfig
from toolbank.retrievers.protip.encoder import embed
from toolbank.retrievers.protip.examples import PlanCollator, PlanExamples
from toolbank.retrievers.protip.mining import mine_negatives
from toolbank.retrievers.protip.model import PlanModel
from toolbank.retrievers.protip.plans import Plan
from toolbank.retrievers.protip.progressive import measure_distances
from toolbank.training.run import Training, train_model
from toolbank.training.text import pad_id
from toolbank.training.trainers import encode_texts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_HARD = 4
_SAMPLE = 256


def train_plans(
    encoder: SentenceTransformer,
    plans: Sequence[Plan],
    tools: Sequence[str],
    config: ProtipConfig,
    context: FitContext,
    validate: Callable[[], float] | None,
) -> Training:
    """Train an encoder on plans; `tools` are all tools' texts, prefix and all.

    The margin is in units of the mean distance between a request and a tool before training, so
    that it suits vectors of any length. `validate` gives Recall@5 on the validation queries.
    """
    size = config.encoder.batch_size
    queries = [config.encoder.query_prefix + plan.query for plan in plans]

    def mine() -> list[list[list[int]]]:
        asked, offered = (embed(encoder, texts, size) for texts in (queries, tools))
        return mine_negatives(plans, asked, offered, _HARD)

    longest = config.training.max_length
    ids = encode_texts(encoder, queries, longest)
    scale = _mean_distance(encoder, queries, tools, size)
    return train_model(
        PlanModel(encoder, config.margin * scale),
        PlanExamples(
            plans,
            ids,
            context.seed,
            mine if config.negatives == "hard" else None,
        ),
        config.training,
        context,
        collate=PlanCollator(
            encode_texts(encoder, tools, longest), pad_id(encoder.tokenizer)
        ),
        lengths=[len(row) for row in ids],
        validate=validate,
        title=config.label,
    )


def _mean_distance(
    encoder: SentenceTransformer,
    queries: Sequence[str],
    tools: Sequence[str],
    batch_size: int,
) -> float:
    asked, offered = (
        embed(encoder, texts[:: math.ceil(len(texts) / _SAMPLE)], batch_size)
        for texts in (queries, tools)
    )
    return float(measure_distances(asked, offered).mean())
