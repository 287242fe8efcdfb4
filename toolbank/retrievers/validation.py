"""How well a retriever does on the validation queries while it is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toolbank.bank import Bank
from toolbank.evaluation.metrics import find_gold, recall

if TYPE_CHECKING:
    from toolbank.retrievers.protocol import Retriever

_K = 5


def validation_recall(retriever: Retriever, bank: Bank) -> float:
    """Mean Recall@5 on the bank's validation queries; 0 where none has a tool of the bank."""
    queries = bank.split("validation")
    gold = [
        sorted({bank.index[n] for n in q.tools if n in bank.index}) for q in queries
    ]
    kept = [place for place, tools in enumerate(gold) if tools]
    if not kept:
        return 0.0
    padded = np.full((len(kept), max(map(len, gold))), -1, np.int64)
    for row, place in zip(padded, kept, strict=True):
        row[: len(gold[place])] = gold[place]
    hits, _ = retriever.search([queries[place].query for place in kept], _K)
    counts = (padded >= 0).sum(axis=1)
    return float(recall(find_gold(hits, padded), counts, _K).mean())
