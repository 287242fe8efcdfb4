"""Figures as the cells of a table: in percent, with the interval beside it."""

from __future__ import annotations

from collections.abc import Iterable

from toolbank.evaluation.figures import Difference, Figure
from toolbank.evaluation.interval import FEWEST

FEW = f"No interval is given where n is below {FEWEST}."


def percent(figure: Figure | None) -> str:
    """Such as "14.3"; "" where there is no value."""
    return "" if figure is None or figure.value is None else f"{100 * figure.value:.1f}"


def with_intervals(
    name: str, figures: Iterable[Figure | Difference | None]
) -> tuple[str, list[str]]:
    """A header and its cells of equal width, such as "R@5 (95 % interval)", "14.3 (10.4 to 18.9)"."""
    parts = [_write(figure) for figure in figures]
    value = max(len(name), *(len(one) for one, _ in parts))
    interval = max(
        len(one) for one in ("(95 % interval)", *(ends for _, ends in parts))
    )
    header, *cells = (
        f"{one:>{value}} {ends:<{interval}}"
        for one, ends in ((name, "(95 % interval)"), *parts)
    )
    return header, cells


def _write(figure: Figure | Difference | None) -> tuple[str, str]:
    if figure is None:
        return "", ""
    sign = "+" if isinstance(figure, Difference) else ""
    value = figure.difference if isinstance(figure, Difference) else figure.value
    if value is None:
        return "", ""
    if figure.low is None or figure.high is None:
        return f"{100 * value:{sign}.1f}", ""
    ends = f"({100 * figure.low:{sign}.1f} to {100 * figure.high:{sign}.1f})"
    return f"{100 * value:{sign}.1f}", ends
