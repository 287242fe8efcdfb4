"""Texts as words, and samples of them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import polars as pl

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
