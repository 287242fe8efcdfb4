"""BM25 of requests against a list of texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.stored import (
    ARRAYS,
    Arrays,
    Stored,
    Texts,
    demand,
    floats,
    integers,
)

_K1, _B = 1.5, 0.75
_WORD = re.compile(r"\b\w\w+\b")
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)
"""Lucene's English ones."""


class LexicalIndex(Stored):
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over texts.

    Lower case, English stop words left out, no stemming. What a word gives to a text is worked
    out beforehand, as by BM25S (arXiv 2407.03618): `weights` of the texts at `places`, those of
    word w from `starts[w]` to `starts[w + 1]`.
    """

    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    weights: NDArray[np.float32]
    n_texts: NDArray[np.int64]
    vocabulary: tuple[str, ...]

    arrays: ClassVar[Arrays] = {
        "n_texts": integers(low=0, high=2**40),
        "starts": integers("starts", low=0, high=2**60),
        "places": integers("entries", low=0, high=2**40),
        "weights": floats("entries", low=0),
    }
    texts: ClassVar[Texts] = {"vocabulary": "words"}

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Index texts."""
        index = cls()
        ids: dict[str, int] = {}
        words: list[int] = []
        counts: list[int] = []
        lengths = np.zeros(len(texts), np.int64)
        sizes = np.zeros(len(texts), np.int64)
        for place, text in enumerate(texts):
            found = Counter(_tokenize(text))
            lengths[place], sizes[place] = found.total(), len(found)
            words += [ids.setdefault(word, len(ids)) for word in found]
            counts += found.values()
        word_of, times = np.array(words, np.int64), np.array(counts, np.float64)
        place_of = np.repeat(np.arange(len(texts)), sizes)
        having = np.bincount(word_of, minlength=len(ids))
        rarity = np.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        mean = max(lengths.mean(), 1e-9) if len(texts) else 1
        damped = _K1 * (1 - _B + _B * lengths[place_of] / mean)
        order = np.argsort(word_of, kind="stable")
        index.weights = (rarity[word_of] * times / (damped + times))[order].astype(
            np.float32
        )
        index.places = place_of[order]
        index.starts = np.concatenate([[0], np.cumsum(having)]).astype(np.int64)
        index.n_texts = np.array(len(texts))
        index.vocabulary = tuple(ids)
        return index

    @classmethod
    def at(cls, folder: Path, texts: Sequence[str]) -> Self:
        """The index of texts that is saved in a folder; made anew where there is none.

        Raises:
            InputError: it is damaged.
        """
        if not folder.is_dir():
            return cls.of(texts)
        index = cls()
        index.load_state(folder, {})
        return index

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read it.

        Raises:
            InputError: a file is missing or damaged, or one doesn't fit the others.
        """
        super().load_state(folder, lengths)
        starts, places = self.starts, self.places
        fits = len(starts) == len(self.vocabulary) + 1 and starts[0] == 0
        fits = fits and starts[-1] == len(places) and bool((np.diff(starts) >= 0).all())
        demand(fits, folder / ARRAYS, "starts of other words")
        inside = places.max(initial=-1) < self.n_texts
        demand(bool(inside), folder / ARRAYS, "places of other texts")

    @property
    def is_empty(self) -> bool:
        """Whether none of the texts has a word that is indexed."""
        return not self.vocabulary

    def scores(self, requests: Sequence[str]) -> NDArray[np.float32]:
        """BM25 [n_requests, n_texts] of each text; 0 where it shares no word."""
        scores = np.zeros((len(requests), int(self.n_texts)), np.float32)
        for row, request in zip(scores, requests, strict=True):
            for word in _tokenize(request):
                if (number := self._numbers.get(word)) is not None:
                    entries = slice(self.starts[number], self.starts[number + 1])
                    row[self.places[entries]] += self.weights[entries]
        return scores

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}


def _tokenize(text: str) -> list[str]:
    return [w for w in _WORD.findall(text.lower()) if w not in _STOP_WORDS]
