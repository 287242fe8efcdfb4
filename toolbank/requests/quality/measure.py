"""Measure the quality of a bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Tool
from toolbank.requests.judge.judges import read_features
from toolbank.requests.quality.coverage import (
    Coverage,
    Dispersion,
    Sets,
    measure_coverage,
    measure_dispersion,
    measure_sets,
)
from toolbank.requests.quality.texts import (
    Openings,
    Overlap,
    Reading,
    Variety,
    draw,
    make_asks,
    make_requests,
    make_tools,
    measure_openings,
    measure_overlap,
    measure_reading,
    measure_variety,
    take_mean,
    words_of,
    words_of_name,
)
from toolbank.requests.verify.gradings import is_of_checks, measure_agreement
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.near_duplicates import NearDuplicates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Agreement:
    """Shares of the requests with verified labels.

    `same`: exactly the first labels are needed. `aside`: excluded requests. `precision` is the
    share of first labels of the others that are needed, `recall` that of needed tools that were
    first labels.
    """

    requests: int
    same: float
    aside: float
    precision: float | None
    recall: float | None


def read_agreement(bank: Bank) -> Agreement | None:
    """Measure the agreement of grades with the first labels; None without graded requests.

    Labels that checks replaced without a model are no grades.
    """
    of: dict[str, list[Label]] = {}
    for label in bank.labels:
        of.setdefault(label.query, []).append(label)
    graded = {query: labels for query, labels in of.items() if not is_of_checks(labels)}
    found = measure_agreement(bank, graded)
    n = found["requests"]
    if not n:
        return None
    return Agreement(
        requests=n,
        same=found["same"] / n,
        aside=found["aside"] / n,
        precision=found["precision"],
        recall=found["recall"],
    )


# "next" counts only at the start of a clause: "next Monday" is no step.
_SEQUENCE = (
    r"(?i)\b(?:then|finally|lastly|afterwards?|after (?:that|which|this)|subsequently|step \d+)\b"
    r"|\b(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|next),"
    r"|(?:^|[.;!?]\s+|\band )next\b"
)


@dataclass(frozen=True)
class Steps:
    """Shares of n texts that read as a list of steps.

    `sequence`: with a word such as "then", "finally" or "step 2". `commands`: with at least two
    commands, such as "load ..., and sort ...".
    """

    n: int
    sequence: float
    commands: float


@dataclass(frozen=True)
class Polish:
    """Requests before and after the polish; `changed` is the share of changed drafts.

    `changed` and `before` are None without drafts; `after` covers all requests.
    """

    drafts: int
    changed: float | None
    before: Steps | None
    after: Steps


def measure_polish(requests: pl.DataFrame) -> Polish | None:
    """Measure the effect of the polish; None without requests."""
    after = _measure_steps(requests["query"])
    if after is None:
        return None
    drafted = requests.filter(pl.col("draft").str.strip_chars() != "")
    other = pl.col("draft").str.strip_chars() != pl.col("query").str.strip_chars()
    changed = drafted.select(other.mean()).item()
    return Polish(drafted.height, changed, _measure_steps(drafted["draft"]), after)


def _measure_steps(texts: pl.Series) -> Steps | None:
    if texts.is_empty():
        return None
    commands = sum(read_features(text).chained_commands > 0 for text in texts)
    sequence = take_mean(texts.str.contains(_SEQUENCE))
    return Steps(len(texts), sequence, commands / len(texts))


THRESHOLD = 0.8
_MOST = 20_000


@dataclass(frozen=True)
class Duplicates:
    """How many of n requests are near-duplicates of an earlier one, by `THRESHOLD`."""

    n: int
    count: int
    share: float


def measure_duplicates(texts: Sequence[str], seed: int) -> Duplicates | None:
    """Count the near-duplicates among up to 20,000 of the texts; None without texts."""
    if not texts:
        return None
    drawn = [texts[place] for place in draw(texts, _MOST, seed)]
    found = NearDuplicates(THRESHOLD, drawn.__getitem__)
    count = 0
    for text in drawn:
        count += found.find_like(text) is not None
        found.add(text)
    return Duplicates(len(drawn), count, count / len(drawn))


@dataclass(frozen=True)
class Leaks:
    """Shares of requests that contain a name.

    `identifier`: the name of any tool, in the form of code. `name`: all words of the name of a
    needed tool, in order and next to each other; `word`: those of names of one word, which may be a
    plain one, such as "sum".
    """

    identifier: float
    name: float
    word: float


def measure_leaks(requests: pl.DataFrame, tools: Sequence[Tool]) -> Leaks | None:
    """Measure the leaks; None without requests or tools."""
    if requests.is_empty() or not tools:
        return None
    checker = TextChecker(tools)
    written = sum(
        checker.find_identifier(text) is not None for text in requests["query"]
    )
    names = words_of_name(pl.col("tools"))
    found = (
        requests.lazy()
        .with_row_index("row")
        .select("row", "tools", text=_spaced(words_of(pl.col("query"))))
        .explode("tools")
        .with_columns(phrase=_spaced(names), words=names.list.len())
        .filter(
            pl.col("words") > 0,
            pl.col("text").str.contains(pl.col("phrase"), literal=True),
        )
        .group_by("row")
        .agg(pl.col("words").max())
        .collect()
    )
    n = requests.height
    words = found.filter(pl.col("words") == 1).height
    return Leaks(written / n, found.height / n, words / n)


def _spaced(words: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit(" "), words.list.join(" "), pl.lit(" "))


_EMBEDDED = 2000
_DIGITS = 6


@dataclass(frozen=True)
class Quality:
    """The figures of a bank; a part is None if the bank has no data for it.

    All cover the requests; `overlap` also covers the kinds of asks.
    """

    tools: int
    requests: int
    asks: int
    coverage: Coverage | None
    sets: Sets | None
    variety: Variety | None
    duplicates: Duplicates | None
    openings: Openings | None
    overlap: tuple[Overlap, ...]
    leaks: Leaks | None
    polish: Polish | None
    reading: Reading | None
    labels: Agreement | None
    dispersion: Dispersion | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, by field, rounded to six digits."""
        rounded: dict[str, Any] = _round(asdict(self))
        return rounded


def measure_quality(bank: Bank, seed: int) -> Quality:
    """Measure all but the dispersion, independent of the order of the bank."""
    requests, tools = make_requests(bank), make_tools(bank)
    texts = requests["query"].to_list()
    return Quality(
        tools=len(bank.tools),
        requests=len(bank.queries),
        asks=len(bank.asks),
        coverage=measure_coverage(requests, tools),
        sets=measure_sets(requests),
        variety=measure_variety(texts, seed),
        duplicates=measure_duplicates(texts, seed),
        openings=measure_openings(requests),
        overlap=tuple(measure_overlap(requests, make_asks(bank), tools)),
        leaks=measure_leaks(requests, bank.tools),
        polish=measure_polish(requests),
        reading=measure_reading(texts),
        labels=read_agreement(bank),
    )


def add_dispersion(
    quality: Quality,
    bank: Bank,
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
    encoder: str,
    seed: int,
) -> Quality:
    """Add the dispersion of up to 2,000 requests, by the unit vectors of `embed`.

    Raises:
        InputError: as `embed` does.
    """
    texts = [query.query for query in bank.queries]
    drawn = [texts[place] for place in draw(texts, _EMBEDDED, seed)]
    found = measure_dispersion(drawn, embed(drawn), seed, encoder)
    return replace(quality, dispersion=found)


def _round(value: Any) -> Any:
    """Round, since the last digits of sums depend on the order of threads."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _round(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_round(one) for one in value]
    return value
