"""Evaluation of retrievers on labelled requests, and its settings."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from pydantic import Field, PositiveInt, field_validator

from toolbank.bank.profile import AXES
from toolbank.config.base import Config

SEEN_PARTS = (
    "test-seen-sets",
    "test-unseen-sets",
    "test-seen-tools",
    "test-unseen-tools",
)
"""Parts of the test split by what train queries have shown."""

CLASS_PARTS = {
    axis: {f"test-{axis}-{name}": name for name in names}
    for axis, names in AXES.items()
}
"""Parts of the test split by the classes of requests: their classes, by axis and name."""

CLASS_NAMES = frozenset(chain(*CLASS_PARTS.values()))

TEST_PARTS = (*SEEN_PARTS, *chain(*CLASS_PARTS.values()))
"""Parts of the test split that are evaluated apart."""

VERIFIED = "test-verified"
"""The test split by its verified labels."""


def main_k(ks: Iterable[int | None]) -> int | None:
    """Return the main cut-off: 5, or else the smallest; None without any."""
    cut_offs = {k for k in ks if k}
    return 5 if 5 in cut_offs else min(cut_offs, default=None)


class EvaluateConfig(Config):
    """Which metrics to compute, and on which queries."""

    ks: tuple[PositiveInt, ...] = Field(
        default=(3, 5, 7, 10),
        min_length=1,
        description="cut-offs of recall, nDCG and COMP (all tools found)",
    )
    on: tuple[Path, ...] = Field(default=(), description="further labelled JSONL files")
    resamples: int = Field(
        default=1000,
        ge=100,
        le=1_000_000,
        description="bootstrap resamples of each interval",
    )

    @field_validator("on")
    @classmethod
    def _names_differ(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        names = ["test", *TEST_PARTS, VERIFIED]
        for path in paths:
            if path.stem in names:
                raise ValueError(
                    f"{path}: another set is named {path.stem!r}; rename the file"
                )
            names.append(path.stem)
        return paths
