"""Measure the texts of requests: variety, openings, reading ease, overlap with references."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import polars as pl

from toolbank.bank.bank import Bank

_WORD = r"[\p{Alphabetic}\p{N}_]+(?:['\u2019][\p{Alphabetic}\p{N}_]+)*"
_OF_A_NAME = r"[\p{Alphabetic}\p{N}]+"
_HUMP = r"(\p{Ll})(\p{Lu})"


def words_of(texts: pl.Expr) -> pl.Expr:
    """The words of each text in lower case, without signs; a word may have an apostrophe in it."""
    return texts.str.to_lowercase().str.extract_all(_WORD)


def words_of_name(names: pl.Expr) -> pl.Expr:
    """The words that the last part of a dotted name is made of: "nan_to_num" has three."""
    last = names.str.split(".").list.last()
    return (
        last.str.replace_all(_HUMP, "${1} ${2}")
        .str.to_lowercase()
        .str.extract_all(_OF_A_NAME)
    )


def content_words(words: pl.Expr) -> pl.Expr:
    """The different ones of a list of words that mean something by themselves."""
    return words.list.eval(
        pl.element().filter(~pl.element().is_in(_small_words()))
    ).list.unique(maintain_order=True)


def draw(texts: Sequence[str], most: int, seed: int) -> list[int]:
    """The places of up to `most` texts, drawn by the seed and by what they say.

    In whatever order the texts come, the same ones are drawn, and in the same order; those of a
    larger sample begin with those of a smaller one.
    """

    def mark(place: int) -> tuple[bytes, str]:
        text = f"{seed}:{texts[place]}".encode(errors="replace")
        return blake2b(text, digest_size=8).digest(), texts[place]

    return sorted(range(len(texts)), key=mark)[:most]


def _small_words() -> list[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return list(STOPWORDS_EN_PLUS)


_SENTENCE = r"[.!?\u2026]+(?:[\"')\]\u2019\u201d]*\s|[\"')\]\u2019\u201d]*$)"
_VOWELS = r"[aeiouyàâäéèêëîïôöùûü]+"
_UNENDED = r"[^.!?\u2026\s\"')\]\u2019\u201d][\s\"')\]\u2019\u201d]*$"
# An e that is not heard; "tle" and "les" after a consonant are, and "ted" and "ded", and "ses".
_SILENT = r"(?:[^aeiouy]|[aeiouy][^aeiouyl])(?:e|es|ed)$"
_HEARD = r"(?:[^aeiouy]l(?:e|es|ed)|[td]ed|(?:[sxz]|ch|sh|[cg])es)$"
# Two vowels that are two syllables.
_APART = (
    r"(?:[^tcsg]ia|[^tscxg]io|[aeouy]ing|[^gq]ua[^r]|ie(?:n|r$|rs$|st$|ty)|creat[eio])"
)


@dataclass(frozen=True)
class Reading:
    """Flesch and Kincaid's grade of the middle request, and of the tenth and the ninetieth of 100."""

    median: float
    low: float
    high: float


def measure_reading(texts: Sequence[str]) -> Reading | None:
    """The grades of texts; None where they have no words."""
    grades = grade(texts).drop_nulls()
    if grades.is_empty():
        return None
    low, median, high = (
        float(grades.quantile(q, "linear") or 0) for q in (0.1, 0.5, 0.9)
    )
    return Reading(median, low, high)


def grade(texts: Sequence[str]) -> pl.Series:
    """The grade of each text; null of one without a word.

    0.39 words a sentence + 11.8 syllables a word - 15.59 (Kincaid et al., 1975): about the years
    of school after which one reads it with ease. Syllables are told by the letters.
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
    """The syllables of English words in lower case, at least 1: groups of vowels that are heard.

    Of the words of some 3,000 requests that the CMU Pronouncing Dictionary has, 98 of 100 get the
    number that it has.
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
    """Variety of wording, of samples by the seed.

    `distinct` has, for n-grams of 1, 2 and 3 words, the share that are different among those of
    the first `words` words of the sample. `self_bleu` is of `sample` requests; None of fewer than two.
    """

    words: int
    distinct: dict[int, float]
    sample: int
    self_bleu: float | None


def measure_variety(texts: Sequence[str], seed: int) -> Variety | None:
    """The variety of texts; None where they have no word.

    Both figures fall or rise with the size of a sample, so it is the same for every bank that has
    as much: 10,000 words, and 500 requests.
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


def measure_distinct(texts: Sequence[str], n: int) -> float | None:
    """Distinct-n (Li et al., arXiv 1510.03055): different n-grams over all; None where there are none.

    An n-gram lies within one text.
    """
    return _distinct(_split(texts), n)


def measure_self_bleu(texts: Sequence[str]) -> float | None:
    """Self-BLEU (Texygen, arXiv 1802.01886), 0 to 1; None of fewer than two texts.

    The mean BLEU-4 of each text with all others as its references; a precision of 0 is smoothed
    to 0.1 over the n-grams there are (Chen and Cherry's first method), and a text without one word
    of another's has 0. Words are without signs and in lower case.
    """
    if len(texts) < 2:
        return None
    words = _split(texts)
    lengths = [0] * len(texts)
    for text, count in words.group_by("text").len().iter_rows():
        lengths[text] = count
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
    """A row a word: text (its place) and word, in order."""
    return (
        pl.DataFrame({"word": texts}, schema={"word": pl.String})
        .with_row_index("text")
        .with_columns(words_of(pl.col("word")))
        .explode("word")
        .drop_nulls()
    )


def _grams(words: pl.DataFrame, n: int) -> pl.DataFrame:
    """A row an n-gram: text and gram."""
    parts = [pl.col("word").shift(-k).over("text") for k in range(n)]
    return words.select(
        "text", gram=pl.concat_str(parts, separator=" ", ignore_nulls=False)
    ).drop_nulls()


def _distinct(words: pl.DataFrame, n: int) -> float | None:
    grams = _grams(words, n)["gram"]
    return grams.n_unique() / len(grams) if len(grams) else None


def _match(words: pl.DataFrame, n: int) -> pl.DataFrame:
    """How many n-grams of each text another one has; each counts as often as it stands there."""
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
    """BLEU's penalty of a text that is shorter than the other of the nearest length."""
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

    `share` is that of requests with one of the ten commonest openings, which are in `commonest`
    with the share of each.
    """

    share: float
    commonest: dict[str, float]


def measure_openings(requests: pl.DataFrame) -> Openings | None:
    """The openings; None where there is no request."""
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
    """A row a request: query, draft, and its tools by their own names, each once, by name.

    A tool that the bank lacks keeps the name that it has.
    """
    return _make(
        [(query.query, query.draft, query.tools) for query in bank.queries], bank
    )


def make_asks(bank: Bank) -> pl.DataFrame:
    """A row an ask: its kind, and the columns of `make_requests`; what siblings share is one."""
    kinds = {ask.ask: ask.kind for ask in bank.asks}
    asked = bank.asked
    rows = _make([(query.query, "", query.tools) for query in asked], bank)
    of = [kinds[query.query] for query in asked]
    return rows.with_columns(kind=pl.Series(of, dtype=pl.String))


def make_tools(bank: Bank) -> pl.DataFrame:
    """A row a tool: its name, and the text that stands for it, its summary or else description."""
    return pl.DataFrame(
        {
            "tool": bank.tool_names,
            "gist": [tool.summary or tool.description for tool in bank.tools],
        },
        schema={"tool": pl.String, "gist": pl.String},
    )


def take_mean(values: pl.Series) -> float:
    """The mean of numbers, or the share of those that are true, of a series that has some."""
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
"""The kind of those that are no asks."""

_BINS = 10


@dataclass(frozen=True)
class Overlap:
    """Words that n texts of one kind of asking share with the tools that they need: means.

    `name`: of the words of these tools' names, the share that the text says. `own`: of the text's
    words, the share that these names and summaries have; `own_bins` counts texts by tenths of it.
    Words such as "the" do not count.
    """

    kind: str
    n: int
    name: float
    own: float
    own_bins: tuple[int, ...]


def measure_overlap(
    requests: pl.DataFrame, asks: pl.DataFrame, tools: pl.DataFrame
) -> list[Overlap]:
    """An entry for the requests, and for each kind of asks; none where no tool is known."""
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
    told = (
        rows.lazy()
        .with_row_index("row")
        .select("row", "tools", said=_plain(pl.col("query")))
        .explode("tools")
        .join(own.lazy(), left_on="tools", right_on="tool")
        .group_by("row")
        .agg(
            pl.col("said").first(),
            name=pl.col("name").explode().unique(),
            gist=pl.col("gist").explode(),
        )
        .filter(pl.col("said").list.len() > 0, pl.col("name").list.len() > 0)
        .select(name=_share("name", "said"), own=_share_of_both())
        .collect()
    )
    if told.is_empty():
        return None
    tenths = (told["own"] * _BINS + 1e-9).floor().clip(0, _BINS - 1).cast(pl.Int64)
    counts = dict(tenths.value_counts().iter_rows())
    return Overlap(
        kind,
        told.height,
        take_mean(told["name"]),
        take_mean(told["own"]),
        tuple(counts.get(place, 0) for place in range(_BINS)),
    )


def _plain(texts: pl.Expr) -> pl.Expr:
    return content_words(words_of(texts))


def _share(of: str, among: str) -> pl.Expr:
    both = pl.col(of).list.set_intersection(among)
    return both.list.len() / pl.col(of).list.len()


def _share_of_both() -> pl.Expr:
    tools = pl.col("name").list.concat("gist")
    both = pl.col("said").list.set_intersection(tools)
    return both.list.len() / pl.col("said").list.len()
