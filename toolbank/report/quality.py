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
    value: float
    is_share: bool
    told: str


def list_figures(quality: Quality) -> list[QualityFigure]:
    """List the known figures in the order of the page."""
    rows = [
        *_cover(quality),
        *_vary(quality),
        *_share_words(quality),
        *_read(quality),
        *_label(quality),
    ]
    return [
        QualityFigure(label, value, is_share, told)
        for label, value, is_share, told in rows
        if value is not None
    ]


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


_Row = tuple[str, float | None, bool, str]


def _cover(quality: Quality) -> Iterator[_Row]:
    if quality.coverage:
        yield (
            f"tools used at least {_AT_LEAST} times",
            quality.coverage.used[_AT_LEAST],
            True,
            "Of tools used less, a retriever learns little from requests.",
        )
        yield (
            "Gini of the uses",
            quality.coverage.gini,
            False,
            "0 where all tools are used equally often, near 1 where few have all uses.",
        )
    if quality.sets:
        yield (
            "distinct sets of tools",
            quality.sets.share,
            True,
            "Of the requests. In ToolBank\u2019s some 20,000 it is 98 %. Where it is low, who "
            "remembers the sets finds most of the tools.",
        )


def _vary(quality: Quality) -> Iterator[_Row]:
    if quality.variety:
        for n in (2, 3):
            yield (
                f"distinct-{n}",
                quality.variety.distinct.get(n),
                False,
                f"Different runs of {n} words over all, in up to 10,000 words.",
            )
        yield (
            "self-BLEU",
            quality.variety.self_bleu,
            False,
            "How far up to 500 requests are made of the words of each other: near 0 where no two "
            "are alike, above 0.3 where they come from a mould.",
        )
    if quality.duplicates:
        yield (
            "near-duplicates",
            quality.duplicates.share,
            True,
            "Requests whose runs of three words are nearly those of an earlier one (Jaccard 0.8).",
        )
    if quality.openings:
        yield (
            "one of ten openings",
            quality.openings.share,
            True,
            "Requests that begin with one of the ten commonest three words.",
        )


def _share_words(quality: Quality) -> Iterator[_Row]:
    one = _of_requests(quality)
    if one:
        yield (
            "names said",
            one.name,
            False,
            "Of the words in their tools\u2019 names. A set made by hand has 0.88 where requests name "
            "the action plainly, and 0.25 where they paraphrase it.",
        )
        yield (
            "the tools\u2019 own words",
            one.own,
            False,
            "Of their words, those that their tools\u2019 names and summaries have. The higher, the "
            "more search by words alone finds.",
        )
    if quality.leaks:
        yield (
            "requests with an identifier",
            quality.leaks.identifier,
            True,
            "Such as nan_to_num, which no person would write. The checks let none pass.",
        )
        yield (
            "requests that say a name",
            quality.leaks.name,
            True,
            "All words of the name of a tool that they need, plain ones such as sum among them.",
        )


def _read(quality: Quality) -> Iterator[_Row]:
    polish = quality.polish
    if polish:
        yield "changed by the polish", polish.changed, True, "Of the drafts."
        words = "With \u201cthen\u201d, \u201cfinally\u201d, \u201cstep 2\u201d and the like"
        if polish.before:
            yield "drafts in steps", polish.before.sequence, True, f"{words}."
        yield (
            "requests in steps",
            polish.after.sequence,
            True,
            f"{words}. A person seldom counts steps out.",
        )
        if polish.before:
            yield "drafts of commands", polish.before.commands, True, "Two or more."
        yield (
            "requests of commands",
            polish.after.commands,
            True,
            "Two or more, told by a list of verbs.",
        )
    if quality.reading:
        yield (
            "reading grade",
            quality.reading.median,
            False,
            "Years of school by the length of words and sentences (Flesch and Kincaid), of the "
            "middle request.",
        )


def _label(quality: Quality) -> Iterator[_Row]:
    if quality.labels:
        yield (
            "first labels needed",
            quality.labels.precision,
            True,
            "Of those that were verified.",
        )
