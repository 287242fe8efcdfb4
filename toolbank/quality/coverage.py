"""How evenly the requests use the tools, and how many sets of tools they are."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from toolbank.quality.rows import take_mean

AT_LEAST = (1, 2, 5, 10, 20)
_STEPS = 20


@dataclass(frozen=True)
class Coverage:
    """How the requests use the n tools of the bank.

    `used` is the share of tools that at least so many requests use, in the order of `AT_LEAST`.
    `gini` is 0 where all are used equally often, and near 1 where one has all the uses. `lorenz`
    has the share of all uses which the least used 0, 5, 10, ... 100 % of the tools have.
    """

    tools: int
    used: dict[int, float]
    gini: float
    lorenz: tuple[float, ...]


@dataclass(frozen=True)
class Sets:
    """The sets of tools that requests need.

    `distinct` is how many different ones there are, `share` that for each request, and `largest`
    the share of requests that have the commonest one. `sizes` counts requests by their number of
    tools, `mean` is the mean of that.
    """

    distinct: int
    share: float
    largest: float
    sizes: dict[int, int]
    mean: float


def measure_coverage(requests: pl.DataFrame, tools: pl.DataFrame) -> Coverage | None:
    """The coverage of a bank; None where it has no tools, or no request uses one of them."""
    used = requests.select(pl.col("tools").explode().alias("tool")).drop_nulls()
    counts = used.group_by("tool").len("uses")
    uses = (
        tools.select("tool")
        .join(counts, on="tool", how="left")
        .select(pl.col("uses").fill_null(0).cast(pl.Int64))
        .to_series()
    )
    if not uses.sum():
        return None
    return Coverage(
        tools=len(uses),
        used={n: take_mean(uses >= n) for n in AT_LEAST},
        gini=measure_gini(uses),
        lorenz=draw_lorenz(uses, _STEPS),
    )


def measure_gini(uses: pl.Series) -> float:
    """The Gini coefficient of counts that are not all 0, from 0 to 1 - 1/n.

    Half the mean difference of two counts over their mean; by the sorted counts x_1 ... x_n it is
    sum((2 i - n - 1) x_i) / (n sum(x)).
    """
    n, ordered = len(uses), uses.sort().cast(pl.Float64)
    place = pl.Series(range(1, n + 1), dtype=pl.Float64)
    ranked = float(((2 * place - n - 1) * ordered).sum())
    return max(0.0, ranked / (n * float(ordered.sum())))


def draw_lorenz(uses: pl.Series, steps: int) -> tuple[float, ...]:
    """The share of all uses that the least used 0, 1/steps, ... 1 of the tools have."""
    summed = [0.0, *uses.sort().cast(pl.Float64).cum_sum()]
    n, whole = len(uses), summed[-1]
    shares = []
    for step in range(steps + 1):
        place = step * n / steps
        below = min(int(place), n - 1)
        part = summed[below] + (place - below) * (summed[below + 1] - summed[below])
        shares.append(part / whole)
    return tuple(shares)


def measure_sets(requests: pl.DataFrame) -> Sets | None:
    """The sets of tools; None where there is no request."""
    if requests.is_empty():
        return None
    sets = requests.select(pl.col("tools").list.sort().list.join("\n")).to_series()
    counts = sets.value_counts()["count"].to_list()
    sizes = requests["tools"].list.len()
    return Sets(
        distinct=len(counts),
        share=len(counts) / len(sets),
        largest=max(counts) / len(sets),
        sizes={int(n): int(k) for n, k in sizes.value_counts().sort("tools").rows()},
        mean=take_mean(sizes),
    )
