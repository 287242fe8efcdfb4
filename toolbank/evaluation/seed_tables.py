"""Tables of figures over seeds: as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from toolbank.evaluation import main_k
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.over_seeds import PairedTest, SeedFigure
from toolbank.evaluation.paired import RESAMPLES
from toolbank.evaluation.tables import FEW, WIDTH
from toolbank.system.numbers import count
from toolbank.system.terminal import align, one_line, wrap
from toolbank.system.text import quote_formula

_LONGEST = 60


@dataclass(frozen=True)
class SeedTable:
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
        return "\n".join([wrap(self.note, WIDTH), *lines])

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


def write_csv(rows: Sequence[SeedFigure | PairedTest]) -> str:
    """Write figures or tests as CSV with all digits; no cell can be a formula of a spreadsheet."""
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    for number, row in enumerate(map(asdict, rows)):
        if not number:
            table.writerow(row)
        table.writerow(
            quote_formula(cell) if isinstance(cell, str) else cell
            for cell in row.values()
        )
    return content.getvalue()


def make_tables(
    figures: Sequence[SeedFigure],
    tests: Sequence[PairedTest],
    seeds: Sequence[int],
    train: Mapping[str, int],
) -> list[SeedTable]:
    """Make a table of figures and one of tests for each set.

    `train` is the mean number of train requests of each setting. If it differs by over a tenth,
    there is a learning curve for each set, too.
    """
    has_curve = min(train.values()) < 0.9 * max(train.values())
    tables = []
    for name in dict.fromkeys(figure.set for figure in figures):
        of_set = [figure for figure in figures if figure.set == name]
        tables.append(_tabulate_figures(name, of_set, seeds))
        if has_curve:
            tables.append(_tabulate_curve(name, of_set, train))
        if compared := [test for test in tests if test.set == name]:
            tables.append(_tabulate_tests(name, compared))
    return tables


def _describe_n(rows: Sequence[SeedFigure | PairedTest]) -> str:
    low, high = min(row.n for row in rows), max(row.n for row in rows)
    return f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"


def _describe_draws(seeds: int) -> str:
    return (
        "requests and seeds" if seeds > 1 else "requests only, since there is one seed"
    )


def _format(mean: float, sd: float | None) -> str:
    return f"{100 * mean:.1f}" + ("" if sd is None else f" ± {100 * sd:.1f}")


def _format_interval(low: float | None, high: float | None, sign: str) -> str:
    if low is None or high is None:
        return ""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def _tabulate_figures(
    name: str, figures: Sequence[SeedFigure], seeds: Sequence[int]
) -> SeedTable:
    k = main_k(figure.k for figure in figures)
    columns = {
        ("recall", k): f"R@{k}",
        ("ndcg", k): f"nDCG@{k}",
        ("comp", k): f"COMP@{k}",
        ("mrr", None): "MRR",
    }
    found = {(f.setting, f.retriever, f.metric, f.k): f for f in figures}
    rows = []
    for setting, retriever in dict.fromkeys((f.setting, f.retriever) for f in figures):
        cells = [found[setting, retriever, *column] for column in columns]
        main = cells[0]
        shown = [_format(cell.mean, cell.sd) for cell in cells]
        interval = _format_interval(main.low, main.high, "")
        rows.append((setting, retriever, shown[0], interval, *shown[1:]))
    first, *others = columns.values()
    listed = ", ".join(map(str, seeds))
    spread = "Mean ± standard deviation over" if len(seeds) > 1 else "Of"
    note = (
        f"{name}: in percent, {_describe_n(figures)} requests. {spread} "
        f"{count(len(seeds), 'seed')} ({listed}). 95 %: interval of {first} over "
        f"{_describe_draws(len(seeds))}, by a bootstrap."
    )
    few = f" {FEW}" if min(figure.n for figure in figures) < FEWEST else ""
    headers = ("setting", "retriever", first, "95 %", *others)
    return _drop_setting(
        SeedTable(f"{name}-figures", note + few, headers, tuple(rows), 2)
    )


def _tabulate_curve(
    name: str, figures: Sequence[SeedFigure], train: Mapping[str, int]
) -> SeedTable:
    k = main_k(figure.k for figure in figures)
    of_recall = [f for f in figures if (f.metric, f.k) == ("recall", k)]
    points: dict[str, dict[int, list[SeedFigure]]] = {}
    for figure in of_recall:
        own = points.setdefault(figure.retriever, {})
        own.setdefault(train[figure.setting], []).append(figure)
    sizes = sorted(set(train.values()))
    rows = [
        (
            retriever,
            *(
                " / ".join(_format(f.mean, f.sd) for f in own.get(size, ()))
                for size in sizes
            ),
        )
        for retriever, own in points.items()
    ]
    note = (
        f"{name}: learning curve, R@{k} in percent by the number of train requests (mean over "
        "seeds)."
    )
    if any(len(same) > 1 for own in points.values() for same in own.values()):
        settings = ", ".join(train)
        note += f" Settings with equally many are in this order: {settings}."
    headers = ("retriever", *(f"{size:,}" for size in sizes))
    return SeedTable(f"{name}-curve", note, headers, tuple(rows), 1)


def _tabulate_tests(name: str, tests: Sequence[PairedTest]) -> SeedTable:
    rows = []
    for test in tests:
        is_same = test.setting == test.against_setting
        against = test.against if is_same else test.against_setting
        rows.append(
            (
                test.setting,
                test.retriever,
                against,
                f"{100 * test.difference:+.1f}",
                _format_interval(test.low, test.high, "+"),
                _format_p(test.p),
                _format_p(test.p_holm),
            )
        )
    note = (
        f"{name}: R@{tests[0].k} of a retriever minus that of another under the same setting, or "
        f"of its own under another setting, in points; {_describe_n(tests)} requests, paired. "
        f"Interval (95 %) and two-sided p over {_describe_draws(tests[0].seeds)}, by a bootstrap "
        f"of {RESAMPLES:,}. Holm: p corrected for {count(tests[0].tests, 'test')} (the same "
        "differences count once); they differ if it is at most 0.05."
    )
    headers = ("setting", "retriever", "against", "points", "95 %", "p", "Holm")
    return _drop_setting(SeedTable(f"{name}-tests", note, headers, tuple(rows), 3))


def _format_p(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _drop_setting(table: SeedTable) -> SeedTable:
    """Drop the column of settings if there is one without a name."""
    if any(row[0] for row in table.rows):
        return table
    rows = tuple(row[1:] for row in table.rows)
    return SeedTable(table.key, table.note, table.headers[1:], rows, table.labels - 1)
