"""Requests that say again what a held-out one says."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolbank.bank.records import Query
from toolbank.generate.near_duplicates import NearDuplicates

ALIKE = 0.8
"""Jaccard index of word 3-grams from which two requests say the same."""


def find_across_splits(queries: Sequence[Query]) -> Collection[int]:
    """The positions of requests that a near-duplicate in a split held out before them rules out.

    Of train those like one of test or validation, and of validation those like one of test.
    """
    texts: list[str] = []
    seen = NearDuplicates(ALIKE, texts.__getitem__)
    found: set[int] = set()
    for split in ("test", "validation", "train"):
        rows = [row for row, query in enumerate(queries) if query.split == split]
        for row in rows:
            if seen.find_like(queries[row].query) is not None:
                found.add(row)
        if split != "train":
            for row in rows:
                texts.append(queries[row].query)
                seen.add(queries[row].query)
    return found
