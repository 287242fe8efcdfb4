"""Measure the quality of a bank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Tool
from toolbank.encoders.base import cluster
from toolbank.requests.judge.judges import read_features
from toolbank.requests.quality.texts import (
    Openings,
    Overlap,
    Reading,
    Variety,
    content_words,
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
from toolbank.requests.verify.agreement import measure_agreement
from toolbank.requests.verify.gradings import is_of_checks
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.near_duplicates import NearDuplicates

AT_LEAST = (1, 2, 5, 10, 20)
_STEPS = 20


@dataclass(frozen=True)
class Coverage:
    """How the requests use the tools of the bank.

    `used` is the share of tools used by at least 1, 2, 5, ... requests, as of `AT_LEAST`. `gini` is
    0 if all are used equally often, and near 1 if one has all uses. `lorenz` is the share of all
    uses that the least used 0, 5, 10, ... 100 % of the tools have.
    """

    tools: int
    used: dict[int, float]
    gini: float
    lorenz: tuple[float, ...]


@dataclass(frozen=True)
class Sets:
    """The sets of tools that requests need.

    `distinct` counts different sets, `share` divides that by the requests, and `largest` is the
    share of requests with the most common set. `sizes` counts requests by number of tools, and
    `mean` is the mean number.
    """

    distinct: int
    share: float
    largest: float
    sizes: dict[int, int]
    mean: float


def measure_coverage(requests: pl.DataFrame, tools: pl.DataFrame) -> Coverage | None:
    """Measure the coverage of a bank; None if no request uses a tool."""
    counts = Counter(chain.from_iterable(requests["tools"].to_list()))
    uses = pl.Series([counts[name] for name in tools["tool"]], dtype=pl.Int64)
    if not uses.sum():
        return None
    return Coverage(
        tools=len(uses),
        used={n: take_mean(uses >= n) for n in AT_LEAST},
        gini=measure_gini(uses),
        lorenz=draw_lorenz(uses, _STEPS),
    )


def measure_gini(uses: pl.Series) -> float:
    """Compute the Gini coefficient of counts that are not all 0, from 0 to 1 - 1/n.

    Half the mean difference of two counts over their mean; by the sorted counts x_1 ... x_n it is
    sum((2 i - n - 1) x_i) / (n sum(x)).
    """
    n, ordered = len(uses), np.sort(uses.to_numpy()).astype(float)
    ranked = float((2 * np.arange(1, n + 1) - n - 1) @ ordered)
    return max(0.0, ranked / (n * float(ordered.sum())))


def draw_lorenz(uses: pl.Series, steps: int) -> tuple[float, ...]:
    """Compute the share of all uses of the least used 0, 1/steps, ... 1 of the tools."""
    summed = np.cumsum([0, *uses.sort()])
    places = np.linspace(0, len(uses), steps + 1)
    shares = np.interp(places, np.arange(len(summed)), summed) / summed[-1]
    return tuple(shares.tolist())


def measure_sets(requests: pl.DataFrame) -> Sets | None:
    """Measure the sets of tools; None without requests."""
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


_TOPICS = 12
_FEWEST = 2 * _TOPICS
_NAMED_BY = 3


@dataclass(frozen=True)
class Topic:
    """A cluster of requests: its characteristic words, and the request nearest to its centre."""

    name: str
    example: str
    count: int
    share: float


@dataclass(frozen=True)
class Dispersion:
    """How diverse n requests are by the vectors of an encoder.

    `cosine` is the mean over all pairs of requests, `nearest` the mean over nearest neighbours.
    `topics` are clusters, the largest first; `effective` is the number of equal topics of the same
    diversity, the exponential of the entropy of their shares.
    """

    encoder: str
    n: int
    cosine: float
    nearest: float
    effective: float
    topics: tuple[Topic, ...]


def measure_dispersion(
    texts: Sequence[str], vectors: NDArray[np.float32], seed: int, encoder: str
) -> Dispersion | None:
    """Measure the dispersion of texts by unit vectors [n, d]; None for fewer than 24."""
    n = len(texts)
    if n < _FEWEST:
        return None
    topics = _find_topics(texts, vectors, seed)
    shares = np.array([topic.share for topic in topics])
    total = float(np.linalg.norm(vectors.sum(axis=0, dtype=np.float64)) ** 2)
    return Dispersion(
        encoder=encoder,
        n=n,
        cosine=(total - n) / (n * (n - 1)),
        nearest=_measure_nearest(vectors),
        effective=float(np.exp(-(shares * np.log(shares)).sum())),
        topics=topics,
    )


def _measure_nearest(vectors: NDArray[np.float32]) -> float:
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    return float(cosines.max(axis=1).mean(dtype=np.float64))


def _find_topics(
    texts: Sequence[str], vectors: NDArray[np.float32], seed: int
) -> tuple[Topic, ...]:
    """Twelve topics by k-means, or fewer if fewer vectors differ."""
    of = cluster(vectors, _TOPICS, seed)
    names = _name_topics(texts, of)
    topics = []
    for group in range(int(of.max()) + 1):
        places = np.flatnonzero(of == group)
        inside = vectors[places]
        nearest = places[(inside @ inside.sum(axis=0)).argmax()]
        share = len(places) / len(texts)
        topics.append(Topic(names.get(group, ""), texts[nearest], len(places), share))
    return tuple(sorted(topics, key=lambda topic: (-topic.count, topic.example)))


def _name_topics(texts: Sequence[str], of: NDArray[np.int64]) -> dict[int, str]:
    """The three words of each topic with the highest class-based TF-IDF, as of BERTopic.

    A word counts once per request: the share of the topic's requests with it, times
    log(1 + mean requests of a topic / requests with it) (arXiv 2203.05794, equation 2).
    """
    rows = (
        pl.DataFrame({"text": texts, "topic": of})
        .with_columns(word=content_words(words_of(pl.col("text"))))
        .explode("word")
        .filter(pl.col("word").str.contains(r"^\p{Alphabetic}{2,}$"))
    )
    mean = len(texts) / (int(of.max()) + 1)
    everywhere = rows.group_by("word").len("everywhere")
    sizes = pl.DataFrame({"topic": of}).group_by("topic").len("size")
    weight = pl.col("len") / pl.col("size") * (1 + mean / pl.col("everywhere")).log()
    named = (
        rows.group_by("topic", "word")
        .len()
        .join(everywhere, on="word")
        .join(sizes, on="topic")
        .with_columns(weight=weight.round(9))
        .sort(["weight", "word"], descending=[True, False])
        .group_by("topic", maintain_order=True)
        .head(_NAMED_BY)
        .group_by("topic", maintain_order=True)
        .agg(pl.col("word").str.join(", "))
    )
    return {int(topic): str(name) for topic, name in named.iter_rows()}


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


_DIGITS = 6


def _round(value: Any) -> Any:
    """Round, since the last digits of sums depend on the order of threads."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _round(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_round(one) for one in value]
    return value
