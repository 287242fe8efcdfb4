"""Whether longer requests are missed more."""

from __future__ import annotations

from collections.abc import Sequence

from toolbank.evaluation.evaluate import Found


def split_lengths(found: Sequence[Found]) -> tuple[list[int], list[int]]:
    """Words of the requests whose tools are all found, and of those that miss one."""
    whole = [len(one.query.split()) for one in found if not one.missed]
    failed = [len(one.query.split()) for one in found if one.missed]
    return whole, failed
