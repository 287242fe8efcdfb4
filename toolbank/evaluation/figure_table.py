"""A table of figures, as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.evaluation.tables import WIDTH
from toolbank.system.terminal import align, one_line, wrap
from toolbank.system.text import quote_formula

_LONGEST = 60


@dataclass(frozen=True)
class FigureTable:
    """A table for people; the first `labels` columns hold names, the others numbers.

    `key` is its name in files, such as "test-recall".
    """

    key: str
    note: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int

    def as_text(self, most: int | None = None) -> str:
        """Lay it out for a terminal, with at most so many rows."""
        shown = self.rows[:most]
        cells = [[one_line(cell, _LONGEST) for cell in row] for row in shown]
        right = range(self.labels, len(self.headers))
        lines = align([self.headers, *cells], right=right, indent=2)
        if left := len(self.rows) - len(shown):
            lines.append(f"  and {left:,} more in the files")
        return "\n".join([wrap(one_line(self.note, 2000), WIDTH), *lines])

    def as_markdown(self) -> str:
        """Write a table of GitHub's Markdown under its note."""
        places = (
            "---:" if n >= self.labels else "---" for n in range(len(self.headers))
        )
        head, *body = (map(_escape_markdown, row) for row in (self.headers, *self.rows))
        lines = [head, places, *body]
        rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{_escape_markdown(self.note)}\n\n{rows}\n"

    def as_latex(self) -> str:
        """Write a table of LaTeX that needs the package booktabs, with its note as the caption."""
        head, *rows = (
            f"{' & '.join(map(_escape_latex, row))} \\\\"
            for row in (self.headers, *self.rows)
        )
        columns = "l" * self.labels + "r" * (len(self.headers) - self.labels)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escape_latex(self.note)}}}",
            rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', self.key.lower())}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            *(r"\toprule", head, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", one_line(text, 10_000))


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in one_line(text, 10_000))


def write_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as CSV with all digits; no cell can be a formula of a spreadsheet."""
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            table.writerow(row)
        table.writerow(
            quote_formula(cell) if isinstance(cell, str) else cell
            for cell in row.values()
        )
    return content.getvalue()


def format_p(p: float | None) -> str:
    """Format a p-value; "" without one."""
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"
