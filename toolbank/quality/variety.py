"""How much the words of requests vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from toolbank.quality.texts import draw, words_of

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
