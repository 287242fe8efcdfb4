"""List the quality figures of a bank for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolbank.report.sections import Bar
from toolbank.requests.quality.measure import Quality
from toolbank.requests.quality.texts import REQUESTS, Overlap

_WIDTH, _HEIGHT = 280, 150
_AT_LEAST = 5


@dataclass(frozen=True)
class QualityFigure:
    """A figure (a share or a number) and what it means."""

    label: str
    value: float | None
    told: str
    is_share: bool = True


def list_figures(quality: Quality) -> list[QualityFigure]:
    """List the known figures in the order of the page."""
    return [figure for figure in _list_all(quality) if figure.value is not None]


def draw_lorenz(quality: Quality) -> str:
    """Draw the Lorenz curve in a box of 280 x 150; "" if no tool is used."""
    if quality.coverage is None:
        return ""
    shares = quality.coverage.lorenz
    step = _WIDTH / (len(shares) - 1)
    points = (
        f"{step * n:.1f},{_HEIGHT * (1 - share):.1f}" for n, share in enumerate(shares)
    )
    return f"M{' L'.join(points)}"


def list_tenths(quality: Quality) -> list[Bar]:
    """Count requests by the share of their words that come from their tools, in tenths."""
    found = _of_requests(quality)
    if found is None:
        return []
    size = 100 // len(found.own_bins)
    return [
        Bar(f"{size * n}", count, count / found.n)
        for n, count in enumerate(found.own_bins)
    ]


def _of_requests(quality: Quality) -> Overlap | None:
    return next((one for one in quality.overlap if one.kind == REQUESTS), None)


def _number(label: str, value: float | None, told: str) -> QualityFigure:
    return QualityFigure(label, value, told, is_share=False)


def _list_all(quality: Quality) -> Iterator[QualityFigure]:
    if coverage := quality.coverage:
        yield QualityFigure(
            f"tools used at least {_AT_LEAST} times",
            coverage.used[_AT_LEAST],
            "A retriever learns little about tools that are used less.",
        )
        told = "0 if all tools are used equally often, near 1 if few have all uses."
        yield _number("Gini of the uses", coverage.gini, told)
    if quality.sets:
        yield QualityFigure(
            "distinct sets of tools",
            quality.sets.share,
            "Of the requests; 98 % in the 20,000 of ToolBank. If it is low, a retriever that "
            "memorizes the sets finds most tools.",
        )
    if variety := quality.variety:
        for n in (2, 3):
            told = f"Share of distinct runs of {n} words, in up to 10,000 words."
            yield _number(f"distinct-{n}", variety.distinct.get(n), told)
        yield _number(
            "self-BLEU",
            variety.self_bleu,
            "How much up to 500 requests share words: near 0 if no two are alike, above 0.3 if "
            "they follow a template.",
        )
    if quality.duplicates:
        told = "Requests whose runs of three words almost equal those of an earlier one (Jaccard 0.8)."
        yield QualityFigure("near-duplicates", quality.duplicates.share, told)
    if quality.openings:
        told = "Requests that begin with one of the ten most common three words."
        yield QualityFigure("one of ten openings", quality.openings.share, told)
    if one := _of_requests(quality):
        yield _number(
            "names said",
            one.name,
            "Share of the words in the tools\u2019 names that the request contains: 0.88 in a "
            "set by hand that names the action plainly, 0.25 in one that paraphrases it.",
        )
        yield _number(
            "the tools\u2019 own words",
            one.own,
            "Share of the words of a request that are in its tools\u2019 names and summaries. "
            "The higher, the more lexical search finds.",
        )
    if leaks := quality.leaks:
        told = (
            "Such as nan_to_num, which no person would write. The checks reject these."
        )
        yield QualityFigure("requests with an identifier", leaks.identifier, told)
        told = "Requests with all words of the name of a needed tool, even plain ones such as sum."
        yield QualityFigure("requests that say a name", leaks.name, told)
    if polish := quality.polish:
        yield QualityFigure("changed by the polish", polish.changed, "Of the drafts.")
        steps = "With \u201cthen\u201d, \u201cfinally\u201d, \u201cstep 2\u201d and the like."
        commands = "Two or more commands, by a list of verbs."
        pairs = [("drafts", polish.before), ("requests", polish.after)]
        known = [(name, style) for name, style in pairs if style]
        for name, style in known:
            yield QualityFigure(f"{name} in steps", style.sequence, steps)
        for name, style in known:
            yield QualityFigure(f"{name} of commands", style.commands, commands)
    if quality.reading:
        told = "Years of school by the length of words and sentences (Flesch and Kincaid); the median."
        yield _number("reading grade", quality.reading.median, told)
    if quality.labels:
        told = "Of those that were verified."
        yield QualityFigure("first labels needed", quality.labels.precision, told)
