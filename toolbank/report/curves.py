"""Smoothed distributions as SVG paths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CURVE_WIDTH, CURVE_HEIGHT = 320.0, 120.0
_POINTS = 161


@dataclass(frozen=True)
class Curve:
    """One distribution: an SVG path in a box of WIDTH x HEIGHT, and where its median lies."""

    label: str
    path: str
    outline: str
    median: float
    median_x: float
    median_y: float
    n: int


@dataclass(frozen=True)
class Overlay:
    """Distributions on one axis; `ticks` are (text, x)."""

    curves: tuple[Curve, ...]
    ticks: tuple[tuple[str, float], ...]


def overlay(
    samples: Sequence[tuple[str, ArrayLike]],
    limits: tuple[float, float] | None = None,
) -> Overlay | None:
    """Gaussian kernel densities (Silverman's bandwidth) of labelled samples on one scale.

    Samples of fewer than two values are left out; None where none is left.
    """
    arrays = [
        (label, np.asarray(values, dtype=np.float64)) for label, values in samples
    ]
    arrays = [(label, values) for label, values in arrays if len(values) > 1]
    if not arrays:
        return None
    together = np.concatenate([values for _, values in arrays])
    low, high = limits or (float(together.min()), float(together.max()))
    if high <= low:
        low, high = low - 1, high + 1
    grid = np.linspace(low, high, _POINTS)
    densities = [_density(values, grid, (high - low) / 100) for _, values in arrays]
    top = max(float(density.max()) for density in densities) or 1.0
    curves = [
        _curve(label, values, grid, density / top)
        for (label, values), density in zip(arrays, densities, strict=True)
    ]
    ticks = tuple(
        (f"{tick:g}", round(CURVE_WIDTH * (tick - low) / (high - low), 1))
        for tick in round_ticks(low, high)
    )
    return Overlay(tuple(curves), ticks)


def round_ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers from `low` to `high`."""
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(
        power * part for part in (5, 2, 1) if (high - low) / (power * part) >= 3
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _density(
    values: NDArray[np.float64], grid: NDArray[np.float64], narrowest: float
) -> NDArray[np.float64]:
    spread = float(values.std(ddof=1))
    bandwidth = max(1.06 * spread * len(values) ** -0.2, narrowest)
    counted, weights = np.unique(values, return_counts=True)
    distance = (grid[:, None] - counted) / bandwidth
    density: NDArray[np.float64] = np.exp(-0.5 * distance**2) @ weights
    density /= len(values) * bandwidth
    return density


def _curve(
    label: str,
    values: NDArray[np.float64],
    grid: NDArray[np.float64],
    heights: NDArray[np.float64],
) -> Curve:
    xs = np.linspace(0, CURVE_WIDTH, len(grid))
    ys = CURVE_HEIGHT * (1 - heights)
    outline = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    median = float(np.median(values))
    x = float(np.interp(median, grid, xs))
    return Curve(
        label=label,
        path=f"{outline} L{CURVE_WIDTH:.0f},{CURVE_HEIGHT:.0f} L0,{CURVE_HEIGHT:.0f} Z",
        outline=outline,
        median=median,
        median_x=x,
        median_y=float(np.interp(x, xs, ys)),
        n=len(values),
    )
