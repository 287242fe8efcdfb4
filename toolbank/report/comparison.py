"""The comparison of two banks: which is better, by how much, and how sure; text, JSON and page."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from toolbank.evaluation.figure_table import FigureTable, format_p, write_csv
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.paired_figures import PairedFigure
from toolbank.evaluation.tables import WIDTH
from toolbank.report.report import environment, read_template
from toolbank.system.files import write_json, write_text
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line, wrap

SECTIONS = (
    "Downstream",
    "Judge",
    "Coverage",
    "Variety",
    "Wording",
    "Price",
    "Labels",
)
"""The sections of figures, in the order of tables."""

_LONGEST_NAME = 40
_HEADERS = ("figure", "A", "B", "B - A", "95 % interval", "p", "")
_NOTHING = "\u2013"
_METHOD = (
    "Differences are B minus A, with 95 % intervals: recall by a bootstrap over requests and seeds, "
    "other figures by a jackknife over candidate sets or requests. A figure that no single request "
    "changes has none. p is corrected for the number of figures (Holm). * marks a sure difference: "
    "p is at most 0.05, and the interval excludes 0."
)


@dataclass(frozen=True)
class JudgeFindings:
    """The verdicts of a judge on pairs of requests, each judged in both orders.

    `same_set` counts the pairs that were written for the same candidate set. `agree` is the share
    of verdicts that are the same in both orders. `first` is the share of all single verdicts except
    ties that prefer the text shown first: 0.5 without position bias.
    """

    judge: str
    heuristic: bool
    pairs: int
    same_set: int
    agree: float | None
    first: float | None

    def describe(self) -> str:
        """Describe the judge, its pairs, and its position bias."""
        first = (
            ""
            if self.first is None
            else (
                f" Of single verdicts that are no tie, {100 * self.first:.0f} % prefer the request shown "
                "first (50 %: no position bias)."
            )
        )
        agree = (
            ""
            if self.agree is None
            else f" Both orders agree in {100 * self.agree:.0f} %."
        )
        heuristic = " It is a heuristic, not a reader." if self.heuristic else ""
        return (
            f"{self.judge} judged {count(self.pairs, 'pair')} in both orders, {self.same_set:,} of "
            f"them written for the same candidate set.{agree}{first}{heuristic}"
        )


@dataclass(frozen=True)
class Downstream:
    """How retrievers were trained on both banks and tested on a file.

    `copies` counts the requests of the file that were removed, by bank; `foreign` those that need
    a tool that not both banks have. `train` and `asks` are the sizes of the training sets.
    """

    file: str
    requests: int
    copies: dict[str, int]
    foreign: int
    seeds: int
    train: int
    asks: int
    notes: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Describe the training and the test."""
        removed = ", ".join(f"{n:,} of {name}" for name, n in self.copies.items())
        asks = f" and {count(self.asks, 'ask')}" if self.asks else ""
        foreign = (
            f" Also removed: {count(self.foreign, 'request')} with a tool that not both banks have."
            if self.foreign
            else ""
        )
        return " ".join([
            f"Retrievers were trained on {count(self.train, 'request')}{asks} of each bank with "
            f"{count(self.seeds, 'seed')}, and tested on {count(self.requests, 'request')} of "
            f"{self.file}. Copies of requests of the banks are removed: {removed}.{foreign}",
            *self.notes,
        ])  # fmt: skip


@dataclass(frozen=True)
class BankComparison:
    """All figures of two banks, A and B.

    `pairs` counts the candidate sets that both were given; 0 if the comparison is unpaired, and
    then `unpaired` says why. `requests` are those compared. `graders` says how far the graders of a
    bank agree. `missing` says which parts could not be compared, and how they can be. `catalogues`
    says how the tools of the banks differ; "" if they do not.
    """

    a: str
    b: str
    seed: int
    pairs: int
    unpaired: str
    requests: tuple[int, int]
    figures: list[PairedFigure]
    judge: JudgeFindings | None = None
    downstream: Downstream | None = None
    graders: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    catalogues: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the content of comparison.json."""
        figures = [
            {
                **asdict(one.kind),
                **{key: value for key, value in asdict(one).items() if key != "kind"},
                "difference": one.difference,
                "holds": one.holds,
                "winner": one.winner,
            }
            for one in self.figures
        ]
        return {**asdict(self), "figures": figures, "sentences": self.summarise()}

    def summarise(self) -> list[str]:
        """Say in plain sentences which bank is better, by how much, and how sure that is."""
        names = {"A": f"A ({self.a})", "B": f"B ({self.b})"}
        tested = [one for one in self.figures if one.adjusted is not None]
        wins = Counter(one.winner for one in tested if one.winner)
        rest = f"of {count(len(tested), 'figure')} that were tested"
        match [(names[one], n) for one, n in wins.most_common()]:
            case []:
                verdict = f"Neither bank is better: no difference {rest} is sure."
            case [(better, n)]:
                verdict = f"{better} is better in {n} {rest}; the other bank is better in none."
            case [(first, n), (second, m)]:
                verdict = f"{first} is better in {n} {rest}, and {second} in {m}."
        return [
            *filter(None, [self.catalogues]),
            verdict,
            *self._describe_downstream(),
            *filter(None, map(self._describe, tested)),
        ]

    def _describe_downstream(self) -> Iterator[str]:
        for one in self.figures:
            if one.kind.section == "Downstream" and self.downstream:
                found = f"{difference(one)} {interval(one)}".strip()
                size = f"{self.downstream.seeds} seeds, {count(one.n, 'request')}"
                better = (
                    f"{one.winner} is better" if one.winner else "no sure difference"
                )
                if one.n < FEWEST:
                    better = f"no verdict, since it needs at least {FEWEST} requests"
                yield f"Downstream, {one.kind.name}: {better}, {found}; {size}."

    def _describe(self, one: PairedFigure) -> str:
        if not one.holds or one.kind.section == "Downstream":
            return ""
        what = f"{one.winner} is better" if one.winner else "the banks differ"
        a, b = value(one.a, one), value(one.b, one)
        return (
            f"{one.kind.section}, {one.kind.name}: {what}. A has {a} and B {b}, a difference of "
            f"{difference(one)} {interval(one)}."
        )

    def describe_data(self) -> list[str]:
        """Say what was compared, and what was not."""
        a, b = (f"{n:,}" for n in self.requests)
        if self.pairs:
            design = (
                f"Paired: both banks were given {self.pairs:,} of the same candidate sets, from which "
                f"A made {a} and B {b} requests."
            )
        else:
            design = f"Unpaired: {a} requests of A and {b} of B. {self.unpaired.rstrip('.')}."
        parts = [one.describe() for one in (self.judge, self.downstream) if one]
        return [
            design,
            *parts,
            *self.graders,
            *(f"Not compared: {one}" for one in self.missing),
        ]

    def sections(self) -> list[tuple[str, list[PairedFigure]]]:
        """The figures by section, in the order of `SECTIONS`."""
        parts = (
            (name, [one for one in self.figures if one.kind.section == name])
            for name in SECTIONS
        )
        return [(name, figures) for name, figures in parts if figures]


def value(number: float | None, figure: PairedFigure) -> str:
    """Format a value of a figure; a share is a percentage."""
    if number is None:
        return _NOTHING
    if figure.kind.unit == "share":
        return f"{100 * number:.1f} %"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def difference(figure: PairedFigure) -> str:
    """Format the difference; that of shares is in points."""
    if figure.difference is None:
        return ""
    unit = " points" if figure.kind.unit == "share" else ""
    return f"{_signed(figure.difference, figure)}{unit}"


def interval(figure: PairedFigure) -> str:
    """Format the interval; "" without one."""
    if figure.low is None or figure.high is None:
        return ""
    return f"({_signed(figure.low, figure)} to {_signed(figure.high, figure)})"


def _signed(number: float, figure: PairedFigure) -> str:
    if figure.kind.unit == "share":
        # Not "-0.0".
        return f"{round(100 * number, 1) + 0.0:+.1f}"
    return f"{number:+,.0f}" if abs(number) >= 100 else f"{number:+.2g}"


def make_tables(found: BankComparison) -> list[FigureTable]:
    """Make a table of the figures of each section."""
    return [
        FigureTable(
            section.lower(),
            f"{section}: {found.a} (A) and {found.b} (B)",
            _HEADERS,
            tuple(
                (
                    one.kind.name,
                    value(one.a, one),
                    value(one.b, one),
                    difference(one),
                    interval(one),
                    format_p(one.adjusted),
                    "*" if one.holds else "",
                )
                for one in figures
            ),
            1,
        )
        for section, figures in found.sections()
    ]


def format_comparison(found: BankComparison) -> str:
    """Format the sentences and the tables of figures."""
    texts = (*found.summarise(), "", *found.describe_data(), _METHOD)
    names = (
        f"{side}: {one_line(name, _LONGEST_NAME)}"
        for side, name in (("A", found.a), ("B", found.b))
    )
    sentences = (wrap(one_line(text, 2000), WIDTH) for text in texts)
    tables = (f"\n{table.as_text()}" for table in make_tables(found))
    return "\n".join([*names, "", *sentences, *tables])


def write_comparison(found: BankComparison, folder: Path) -> Path:
    """Write the page, JSON, CSV, Markdown and LaTeX of a comparison; returns the page's path.

    Their names have a hash of the content, so they replace no other comparison. The page is
    self-contained, loads nothing, and every text in it is escaped.

    Raises:
        ToolbankError: they can't be written.
    """
    content = found.as_json()
    text = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    target = folder / f"comparison-{digest}.html"
    page = environment().get_template("comparison.html").render(
        found=found,
        method=_METHOD,
        style=read_template("style.css"),
        probability=format_p,
        **{of.__name__: of for of in (value, difference, interval)},
    )  # fmt: skip
    tables = make_tables(found)
    write_json(target.with_suffix(".json"), content)
    write_text(target.with_suffix(".csv"), write_csv(content["figures"]))
    for suffix, written in (
        (".md", (table.as_markdown() for table in tables)),
        (".tex", (table.as_latex() for table in tables)),
    ):
        write_text(target.with_suffix(suffix), "\n".join(written))
    write_text(target, page)
    return target
