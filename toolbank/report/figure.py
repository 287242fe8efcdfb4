"""A figure by itself, as an SVG that any viewer shows."""

from __future__ import annotations

from toolbank.report.lines import LineChart
from toolbank.report.report import environment, read_template


def line_figure(chart: LineChart, unit: str, caption: str) -> str:
    """The SVG of a chart of lines; `unit` stands below its axis, `caption` is read aloud."""
    macros = environment().get_template("figures.svg").module
    svg: str = str(macros.lines(chart, unit, caption)).strip()  # type: ignore[attr-defined]
    head, _, rest = svg.partition(">")
    sheet = f"<style>{read_template('style.css')}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg">{sheet}{ground}{rest}\n'
