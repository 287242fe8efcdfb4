"""How often each tool is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from toolbank.evaluation.evaluate import Found

PARTS = ("never", "up to half of the times", "more often", "always")
"""How often a tool is missed."""


@dataclass(frozen=True)
class ToolFailures:
    """Of each tool, the share of the requests for it that miss it.

    `mean` and `deviation` (the standard one) are over the tools that are asked for; `parts`
    counts these tools by `PARTS`.
    """

    mean: float
    deviation: float
    parts: tuple[int, ...]


def count_failures(
    found: Sequence[Found], known: Container[str]
) -> ToolFailures | None:
    """The failures of one method per tool, as arXiv 2409.02141 tells them.

    Names that are not `known` are no tools, so that nothing could find them: they are left out.
    None where no request needs a known tool.
    """
    needed = Counter(tool for one in found for tool in one.tools if tool in known)
    missed = Counter(tool for one in found for tool in one.missed)
    if not needed:
        return None
    rates = np.array([missed[tool] / n for tool, n in needed.items()])
    part = np.select([rates == 0, rates <= 0.5, rates < 1], [0, 1, 2], default=3)
    counts = np.bincount(part, minlength=len(PARTS))
    return ToolFailures(float(rates.mean()), float(rates.std()), tuple(counts.tolist()))
