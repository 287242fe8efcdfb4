"""How far first and verified labels agree."""

from __future__ import annotations

from dataclasses import dataclass

from toolbank.bank.bank import Bank, Label
from toolbank.verify.fold import is_of_checks, measure_agreement


@dataclass(frozen=True)
class Agreement:
    """Of `requests` with verified labels: shares.

    `same`: these need just their first labels. `aside`: they are set aside. Of the first labels of
    the others, `precision` are needed, and `recall` is the share of what they need that was one.
    """

    requests: int
    same: float
    aside: float
    precision: float | None
    recall: float | None


def read_agreement(bank: Bank) -> Agreement | None:
    """How grades agree with the first labels of a bank; None where no request was graded.

    What checks without a model have mended is no grade.
    """
    of: dict[str, list[Label]] = {}
    for label in bank.labels:
        of.setdefault(label.query, []).append(label)
    graded = {query: labels for query, labels in of.items() if not is_of_checks(labels)}
    found = measure_agreement(bank, graded)
    n = found["requests"]
    if not n:
        return None
    return Agreement(
        requests=n,
        same=found["same"] / n,
        aside=found["aside"] / n,
        precision=found["precision"],
        recall=found["recall"],
    )
