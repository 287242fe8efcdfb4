"""How many rows a fine-tuning has; they are made in `finetune`."""

from __future__ import annotations

from toolbank.encoders.finetune.config import EncoderTraining
from toolbank.encoders.finetune.negatives import draw_negatives
from toolbank.encoders.finetune.pairs import draw_pairs
from toolbank.encoders.finetune.texts import Rows, make_texts
from toolbank.encoders.sentence.config import SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.numbers import count


def count_rows(training: EncoderTraining, uses: Rows, n_tools: int, seed: int) -> int:
    """The number of rows that are trained on; neither texts nor an encoder are needed.

    `uses` [n_queries, most] are the indices of each query's tools, padded with -1.

    Raises:
        InputError: there is none.
    """
    texts = make_texts(SentenceConfig(), [""] * len(uses), uses, [""] * n_tools)
    pairs = draw_pairs(texts, training.pairs, seed)
    rows = len(pairs)
    if training.loss == "triplet":
        # Which negative it is does not matter: a pair has one or has none.
        rows = int((draw_negatives(texts, pairs, seed) != pairs[:, 1]).sum())
    demand_rows(rows, training, len(uses))
    return rows


def demand_rows(rows: int, training: EncoderTraining, n_queries: int) -> None:
    """Refuse a fine-tuning without any row.

    Raises:
        InputError: there is none.
    """
    if not rows:
        raise InputError(
            f"training: no {' or '.join(training.pairs)} pairs can be made of "
            f"{count(n_queries, 'train query', 'train queries')}. Add queries that use the same "
            "tools, or leave training out."
        )
