"""Measure texts: variety, openings, reading ease, overlap with references, explanations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.requests.write.config import ExplanationsConfig
from toolbank.retrievers.base import title_and_summary
from toolbank.system.numbers import count

_WORD = r"[\p{Alphabetic}\p{N}_]+(?:['\u2019][\p{Alphabetic}\p{N}_]+)*"
_OF_A_NAME = r"[\p{Alphabetic}\p{N}]+"
_HUMP = r"(\p{Ll})(\p{Lu})"


def words_of(texts: pl.Expr) -> pl.Expr:
    """Split texts into words in lower case without punctuation; apostrophes inside stay."""
    return texts.str.to_lowercase().str.extract_all(_WORD)


def words_of_name(names: pl.Expr) -> pl.Expr:
    """Split the last part of a dotted name into words: "nan_to_num" has three."""
    last = names.str.split(".").list.last()
    return (
        last.str.replace_all(_HUMP, "${1} ${2}")
        .str.to_lowercase()
        .str.extract_all(_OF_A_NAME)
    )


def content_words(words: pl.Expr) -> pl.Expr:
    """Select the distinct content words of a list, without stop words."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    is_stop_word = pl.element().is_in(list(STOPWORDS_EN_PLUS))
    return words.list.eval(pl.element().filter(~is_stop_word)).list.unique(
        maintain_order=True
    )


def draw(texts: Sequence[str], most: int, seed: int) -> list[int]:
    """Draw the places of up to `most` texts, by the seed and their content.

    The sample does not depend on the order of the texts, and a larger sample begins with a smaller
    one.
    """

    def mark(place: int) -> tuple[bytes, str]:
        text = f"{seed}:{texts[place]}".encode(errors="replace")
        return blake2b(text, digest_size=8).digest(), texts[place]

    return sorted(range(len(texts)), key=mark)[:most]


_SENTENCE = r"[.!?\u2026]+(?:[\"')\]\u2019\u201d]*\s|[\"')\]\u2019\u201d]*$)"
_VOWELS = r"[aeiouyàâäéèêëîïôöùûü]+"
_UNENDED = r"[^.!?\u2026\s\"')\]\u2019\u201d][\s\"')\]\u2019\u201d]*$"
# A silent e; it is spoken in "tle" and "les" after a consonant, "ted", "ded" and "ses".
_SILENT = r"(?:[^aeiouy]|[aeiouy][^aeiouyl])(?:e|es|ed)$"
_HEARD = r"(?:[^aeiouy]l(?:e|es|ed)|[td]ed|(?:[sxz]|ch|sh|[cg])es)$"
# Two vowels that are two syllables.
_APART = (
    r"(?:[^tcsg]ia|[^tscxg]io|[aeouy]ing|[^gq]ua[^r]|ie(?:n|r$|rs$|st$|ty)|creat[eio])"
)


@dataclass(frozen=True)
class Reading:
    """The Flesch-Kincaid grade of requests: the median, and the 10th and 90th percentile."""

    median: float
    low: float
    high: float


def measure_reading(texts: Sequence[str]) -> Reading | None:
    """Measure the grades of texts; None without words."""
    grades = grade(texts).drop_nulls()
    if grades.is_empty():
        return None
    low, median, high = (
        float(grades.quantile(q, "linear") or 0) for q in (0.1, 0.5, 0.9)
    )
    return Reading(median, low, high)


def grade(texts: Sequence[str]) -> pl.Series:
    """Compute the grade of each text; null without words.

    0.39 words a sentence + 11.8 syllables a word - 15.59 (Kincaid et al., 1975), about the years of
    school needed to read it with ease. Syllables are counted by spelling.
    """
    rows = pl.DataFrame({"text": texts}, schema={"text": pl.String}).with_columns(
        sentences=pl.col("text").str.count_matches(_SENTENCE)
        + pl.col("text").str.contains(_UNENDED),
        words=words_of(pl.col("text")),
    )
    syllables = pl.col("words").list.eval(count_syllables(pl.element())).list.sum()
    count = pl.col("words").list.len()
    grades = 0.39 * count / pl.col("sentences") + 11.8 * syllables / count - 15.59
    return rows.select(pl.when(count > 0).then(grades)).to_series()


def count_syllables(words: pl.Expr) -> pl.Expr:
    """Count the syllables of English words in lower case, at least 1, by groups of vowels.

    98 % of the words in some 3,000 requests have the count of the CMU Pronouncing Dictionary.
    """
    silent = words.str.contains(_SILENT) & ~words.str.contains(_HEARD)
    groups = words.str.count_matches(_VOWELS).cast(pl.Int32)
    apart = words.str.count_matches(_APART).cast(pl.Int32)
    heard = groups + apart - silent.cast(pl.Int32)
    return pl.max_horizontal(heard, pl.lit(1, pl.Int32))


_WORDS = 10_000
_SAMPLE = 500
_ORDERS = (1, 2, 3, 4)
_SMALLEST = 0.1


@dataclass(frozen=True)
class Variety:
    """The variety of wording in samples.

    `distinct` is the share of distinct n-grams of 1, 2 and 3 words in the first `words` words.
    `self_bleu` covers `sample` requests; None for fewer than two.
    """

    words: int
    distinct: dict[int, float]
    sample: int
    self_bleu: float | None


def measure_variety(texts: Sequence[str], seed: int) -> Variety | None:
    """Measure the variety of texts; None without words.

    Both figures depend on the size of the sample, so it is fixed: 10,000 words and 500 requests, if
    the bank has them.
    """
    drawn = [texts[place] for place in draw(texts, len(texts), seed)]
    words = _split(drawn).filter(pl.int_range(pl.len()) < _WORDS)
    if words.is_empty():
        return None
    sample = drawn[:_SAMPLE]
    return Variety(
        words=words.height,
        distinct={n: share for n in (1, 2, 3) if (share := _distinct(words, n))},
        sample=len(sample),
        self_bleu=measure_self_bleu(sample),
    )


def measure_self_bleu(texts: Sequence[str]) -> float | None:
    """Compute Self-BLEU (Texygen, arXiv 1802.01886), 0 to 1; None for fewer than two texts.

    The mean BLEU-4 of each text with all others as references. A precision of 0 is smoothed to 0.1
    over the number of n-grams (Chen and Cherry's first method), and a text without a word of the
    others has 0. Words are in lower case without punctuation.
    """
    if len(texts) < 2:
        return None
    words = _split(texts)
    lengths = [0] * len(texts)
    for text, length in words.group_by("text").len().iter_rows():
        lengths[text] = length
    logs = [0.0] * len(texts)
    for n in _ORDERS:
        matched = dict(_match(words, n).iter_rows())
        for text, length in enumerate(lengths):
            # As there, one n-gram where the text is shorter.
            total = max(1, length - n + 1)
            found = matched.get(text, 0)
            if n == 1 and not found:
                logs[text] = -math.inf
            logs[text] += math.log((found or _SMALLEST) / total) / len(_ORDERS)
    brevity = _brevity(lengths)
    scores = (math.exp(log) * short for log, short in zip(logs, brevity, strict=True))
    return sum(scores) / len(texts)


def _split(texts: Sequence[str]) -> pl.DataFrame:
    """A row per word: the place of its text and the word, in order."""
    return (
        pl.DataFrame({"word": texts}, schema={"word": pl.String})
        .with_row_index("text")
        .with_columns(words_of(pl.col("word")))
        .explode("word")
        .drop_nulls()
    )


def _grams(words: pl.DataFrame, n: int) -> pl.DataFrame:
    """A row per n-gram: text and gram."""
    parts = [pl.col("word").shift(-k).over("text") for k in range(n)]
    return words.select(
        "text", gram=pl.concat_str(parts, separator=" ", ignore_nulls=False)
    ).drop_nulls()


def _distinct(words: pl.DataFrame, n: int) -> float | None:
    """Distinct-n (Li et al., arXiv 1510.03055), the share of distinct n-grams of the texts."""
    grams = _grams(words, n)["gram"]
    return grams.n_unique() / len(grams) if len(grams) else None


def _match(words: pl.DataFrame, n: int) -> pl.DataFrame:
    """Count the n-grams of each text that another text has, at most as often as there."""
    counts = _grams(words, n).group_by("text", "gram").len("own")
    most = counts.group_by("gram").agg(
        first=pl.col("own").max(),
        # Of the others, where the text itself has the most.
        second=pl.col("own").sort(descending=True).get(1, null_on_oob=True),
    )
    others = (
        pl.when(pl.col("own") == pl.col("first"))
        .then(pl.col("second").fill_null(0))
        .otherwise("first")
    )
    return (
        counts.join(most, on="gram")
        .group_by("text")
        .agg(pl.min_horizontal("own", others).sum().cast(pl.Int64))
    )


def _brevity(lengths: Sequence[int]) -> list[float]:
    """BLEU's brevity penalty by the other text of the nearest length."""
    penalties = []
    for place, own in enumerate(lengths):
        others = (n for other, n in enumerate(lengths) if other != place)
        nearest = min(others, key=lambda n: (abs(n - own), n))
        short = bool(own) and own <= nearest
        penalties.append(math.exp(1 - nearest / own) if short else 1.0)
    return penalties


_OPENING_WORDS = 3
_COMMONEST = 10


@dataclass(frozen=True)
class Openings:
    """The first three words of requests.

    `share` is that of requests with one of the ten most common openings; `commonest` has the share
    of each.
    """

    share: float
    commonest: dict[str, float]


def measure_openings(requests: pl.DataFrame) -> Openings | None:
    """Measure the openings; None without requests."""
    if requests.is_empty():
        return None
    first = words_of(pl.col("query")).list.head(_OPENING_WORDS).list.join(" ")
    found = (
        requests.group_by(opening=first)
        .len()
        .sort(["len", "opening"], descending=[True, False])
        .head(_COMMONEST)
        .select("opening", pl.col("len") / requests.height)
    )
    commonest = {opening: float(share) for opening, share in found.iter_rows()}
    return Openings(min(1.0, sum(commonest.values())), commonest)


def make_requests(bank: Bank) -> pl.DataFrame:
    """Make a row per request: query, draft, and its tools by their own names, sorted.

    A tool that the bank lacks keeps its name.
    """
    return _make(
        [(query.query, query.draft, query.tools) for query in bank.queries], bank
    )


def make_asks(bank: Bank) -> pl.DataFrame:
    """Make a row per ask, shared ones once: its kind, and the columns of `make_requests`."""
    kinds = {ask.ask: ask.kind for ask in bank.asks}
    asked = bank.asked
    rows = _make([(query.query, "", query.tools) for query in asked], bank)
    of = [kinds[query.query] for query in asked]
    return rows.with_columns(kind=pl.Series(of, dtype=pl.String))


def make_tools(bank: Bank) -> pl.DataFrame:
    """Make a row per tool: its name, and its summary or else description."""
    return pl.DataFrame(
        {
            "tool": bank.tool_names,
            "gist": [tool.summary or tool.description for tool in bank.tools],
        },
        schema={"tool": pl.String, "gist": pl.String},
    )


def take_mean(values: pl.Series) -> float:
    """Take the mean of numbers, or the share of true values, of a series that is not empty."""
    return float(values.cast(pl.Float64).to_numpy().mean())


def _make(rows: list[tuple[str, str, tuple[str, ...]]], bank: Bank) -> pl.DataFrame:
    names = bank.tool_names

    def own(name: str) -> str:
        return names[bank.index[name]] if name in bank.index else name

    return pl.DataFrame(
        [
            (text, draft, sorted({own(name) for name in tools}))
            for text, draft, tools in rows
        ],
        schema={"query": pl.String, "draft": pl.String, "tools": pl.List(pl.String)},
        orient="row",
    )


REQUESTS = "requests"
"""The kind of requests that are no asks."""

_BINS = 10


@dataclass(frozen=True)
class Overlap:
    """The mean overlap of n texts of one kind with the words of their tools, without stop words.

    `name`: the share of the words of the tools' names that are in the text. `own`: the share of the
    text's words that are in these names and summaries; `own_bins` counts texts by tenths of it.
    """

    kind: str
    n: int
    name: float
    own: float
    own_bins: tuple[int, ...]


def measure_overlap(
    requests: pl.DataFrame, asks: pl.DataFrame, tools: pl.DataFrame
) -> list[Overlap]:
    """Measure the requests, and each kind of asks; without known tools an empty list."""
    own = tools.select(
        "tool",
        name=content_words(words_of_name(pl.col("tool"))),
        gist=_plain(pl.col("gist")),
    )
    parts = {REQUESTS: requests}
    for kind in asks["kind"].unique().sort():
        parts[kind or "asks"] = asks.filter(pl.col("kind") == kind)
    found = (_measure(kind, rows, own) for kind, rows in parts.items())
    return [one for one in found if one is not None]


def _measure(kind: str, rows: pl.DataFrame, own: pl.DataFrame) -> Overlap | None:
    found = (
        rows.lazy()
        .with_row_index("row")
        .select("row", "tools", words=_plain(pl.col("query")))
        .explode("tools")
        .join(own.lazy(), left_on="tools", right_on="tool")
        .group_by("row")
        .agg(
            pl.col("words").first(),
            name=pl.col("name").explode().unique(),
            gist=pl.col("gist").explode(),
        )
        .filter(pl.col("words").list.len() > 0, pl.col("name").list.len() > 0)
        .select(
            name=_share(pl.col("name"), pl.col("words")),
            own=_share(pl.col("words"), pl.col("name").list.concat("gist")),
        )
        .collect()
    )
    if found.is_empty():
        return None
    tenths = (found["own"] * _BINS + 1e-9).floor().clip(0, _BINS - 1).cast(pl.Int64)
    counts = dict(tenths.value_counts().iter_rows())
    return Overlap(
        kind,
        found.height,
        take_mean(found["name"]),
        take_mean(found["own"]),
        tuple(counts.get(place, 0) for place in range(_BINS)),
    )


def _plain(texts: pl.Expr) -> pl.Expr:
    return content_words(words_of(texts))


def _share(of: pl.Expr, among: pl.Expr) -> pl.Expr:
    return of.list.set_intersection(among).list.len() / of.list.len()


Vectors = NDArray[np.float32]

_SENTENCE_START = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9$])")


def faithfulness(steps: Vectors, source: Vectors) -> float:
    """Compute Faithfulness-Step (h -> s), the mean alignment of a chain's N steps, from 0 to 1.

    1/N sum_i r-align(h_i -> s), with r-align(h_i -> s) = (1 + max_j cos(h_i, s_j)) / 2. `steps`
    [n, d] and `source` [m, d] are unit vectors.
    """
    cosines = (steps @ source.T).max(axis=1)
    return float(np.clip((1 + cosines) / 2, 0, 1, dtype=np.float32).mean())


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences, at a full stop, ! or ? before a capital letter or digit."""
    parts = (part.strip() for part in _SENTENCE_START.split(text))
    return tuple(part for part in parts if part)


def check_explanations(
    queries: Iterable[Query], tools: Sequence[Tool], config: ExplanationsConfig
) -> dict[str, Any]:
    """Measure how explanations align with their requests, and find those that miss a tool.

    The sentences of an explanation are the steps of a chain, whose source is draft and query:
    `alignment` is the mean Faithfulness-Step (ROSCOE, arXiv 2212.07919), and `queries` has that of
    each query with tools that are not among the `within` tools nearest to any of its steps.

    Raises:
        InputError: the encoder can't be loaded.
    """
    from toolbank.encoders import load_encoder

    encoder = load_encoder(config.encoder)
    vectors = encoder.encode_documents([title_and_summary(tool) for tool in tools])
    places = {tool.name: place for place, tool in enumerate(tools)}
    alignments, reported, without = [], [], 0
    for query in queries:
        steps = split_sentences(query.explanation)
        if not steps:
            without += 1
            continue
        chain = encoder.encode_documents(steps)
        source = [*split_sentences(query.draft), *split_sentences(query.query)]
        alignments.append(faithfulness(chain, encoder.encode_queries(source)))
        cosines = chain @ vectors.T
        named = [places[name] for name in query.tools if name in places]
        ranks = (cosines[:, None, :] > cosines[:, named, None]).sum(axis=2)
        supported = (ranks < config.within).any(axis=0)
        missing = [tools[named[i]].name for i in np.flatnonzero(~supported)]
        if missing:
            row = {"id": query.id, "tools": missing, "alignment": alignments[-1]}
            reported.append(row)
    return {
        "encoder": config.encoder.label,
        "within": config.within,
        "explained": len(alignments),
        "without_explanation": without,
        "alignment": float(np.mean(alignments)) if alignments else None,
        "queries": reported,
    }


def describe_explanations(found: dict[str, Any]) -> list[str]:
    """Describe the queries whose explanation does not support their tools; [] if none."""
    if not found["queries"]:
        return []
    first = found["queries"][0]
    explained = count(found["explained"], "explanation", "explanations")
    return [
        f"{len(found['queries'])} of {explained} do not mention every tool of their query, such as "
        f"that of {first['id']} ({', '.join(first['tools'])}). See bank/explanations.json."
    ]
