"""The metrics of an evaluation with their 95 % intervals, and comparisons of methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolbank.bank.ranking import wilson_interval
from toolbank.config.explain import read_checked
from toolbank.system.files import write_json
from toolbank.system.numbers import unsigned

Opponent = Literal["first stage", "nearest neighbours", "descriptions", "decomposition"]

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Points = Annotated[float, Field(ge=-1, le=1)]
_CutOff = Annotated[int, Field(ge=1)] | None


@dataclass(frozen=True)
class Figure:
    """One metric of a retriever on a set: recall, ndcg, comp or mrr, at a cut-off k.

    If the bank has twins, there is also recall_or_twin (`toolbank.bank.ranking`). `value` is the
    mean over `n` queries, from 0 to 1; `low` and `high` are its 95 % interval (`mean_intervals`),
    both None if n is too small. `value` is None for an empty set, and `k` is None for mrr.
    """

    retriever: str
    set: str
    metric: str
    k: _CutOff
    value: _Share | None
    low: _Share | None
    high: _Share | None
    n: _Count


@dataclass(frozen=True)
class Difference:
    """How much better a retriever is than another, of the kind `baseline`, on the same queries.

    `difference` is positive where it is better; `low` and `high` are the ends of its 95 % interval
    (`difference_intervals`), both None where n is too small for one.
    """

    retriever: str
    against: str
    baseline: Opponent
    set: str
    metric: str
    k: _CutOff
    difference: _Points
    low: _Points | None
    high: _Points | None
    n: _Count

    @property
    def is_sure(self) -> bool:
        """Whether there is an interval, and it does not contain 0."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class SetLabels:
    """The labels of a set that could not count.

    `unknown` counts the uses of each name that the bank lacks; `refusals` counts skipped lines
    without a needed tool.
    """

    set: str
    n: _Count
    unknown: dict[str, _Count]
    refusals: _Count = 0


def write_figures(
    path: Path, figures: Sequence[Figure | Difference | SetLabels]
) -> None:
    """Write figures as a JSON list of objects, atomically."""
    write_json(path, [asdict(figure) for figure in figures])


def read_figures(path: Path) -> list[Figure]:
    """Read a metrics.json or validation.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[Figure])


def read_differences(path: Path) -> list[Difference]:
    """Read a comparisons.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[Difference])


def read_labels(path: Path) -> list[SetLabels]:
    """Read a labels.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_checked(path, list[SetLabels])


def read_warnings(path: Path) -> list[str]:
    """Read a warnings.json; runs of earlier versions have none.

    Raises:
        InputError: the file is damaged.
    """
    return read_checked(path, list[str]) if path.is_file() else []


_BLOCK_DRAWS = 4_000_000


def bootstrap_means(
    values: NDArray[np.float64], resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % percentile intervals of the means of the columns of `values` [n, m], n > 0.

    Queries are drawn with replacement, the same ones for every column (Efron 1979). Returns
    the lower and upper ends, both [m]. The same seed gives the same intervals.
    """
    n, m = values.shape
    random = np.random.default_rng(unsigned(seed))
    means = np.empty((resamples, m))
    size = max(1, _BLOCK_DRAWS // n)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        drawn = random.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        means[start : start + rows] = counts @ values / n
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    return low, high


FEWEST = 10
"""The least number of queries for an interval."""

# If six values differ from the rest, all to one side, a sign test is significant at 5 % (2 / 2^6).
# With fewer, a bootstrap is too narrow.
_FEWEST_OTHERS = 6

Interval = tuple[float, float] | tuple[None, None]


def mean_intervals(
    values: NDArray[np.float64], resamples: int, seed: int
) -> list[Interval]:
    """95 % intervals of the means of the columns of `values` [n, m], from 0 to 1.

    - of fewer than `FEWEST` values: none, (None, None)
    - of zeros and ones: Wilson's, of the share of ones (1927)
    - where fewer than six values differ from the rest: Wilson's too, of the mean. It is not too
      narrow, since values from 0 to 1 of mean m have a variance of m (1 - m) at most; a bootstrap
      has no width there, or next to none
    - else: the percentile bootstrap, the same resamples for every column (Efron 1979)
    """
    n, columns = values.shape
    if n < FEWEST:
        return [(None, None)] * columns
    low, high = bootstrap_means(values, resamples, seed)
    return [
        wilson_interval(float(column.sum()), n)
        if set(column) <= {0.0, 1.0} or _count_others(column) < _FEWEST_OTHERS
        else (float(low[i]), float(high[i]))
        for i, column in enumerate(values.T)
    ]


def difference_intervals(
    values: NDArray[np.float64], resamples: int, seed: int
) -> list[Interval]:
    """95 % intervals of the means of the columns of paired differences [n, m], from -1 to 1.

    - of fewer than `FEWEST` values: none, (None, None)
    - where all values are the same: others, anywhere, may have the share that is the upper end of
      Wilson's interval of 0 among n, as in the rule of three (Hanley and Lippman-Hand 1983)
    - else: the percentile bootstrap
    """
    n, columns = values.shape
    if n < FEWEST:
        return [(None, None)] * columns
    low, high = bootstrap_means(values, resamples, seed)
    _, unseen = wilson_interval(0, n)
    return [
        (float(low[i]), float(high[i]))
        if _count_others(column)
        else (
            column[0] - unseen * (column[0] + 1),
            column[0] + unseen * (1 - column[0]),
        )
        for i, column in enumerate(values.T.tolist())
    ]


def _count_others(values: NDArray[np.float64] | list[float]) -> int:
    """Count the values that are not the most frequent one."""
    _, counts = np.unique(values, return_counts=True)
    return int(counts.sum() - counts.max())
