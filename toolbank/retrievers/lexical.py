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
# Lucene's English stop words.
_STOP_WORDS = frozenset(
    _WORD.findall(
        "an and are as at be but by for if in into is it no not of on or such that the their "
        "then there these they this to was will with"
    )
)


class LexicalIndex(Stored):
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over texts.

    Lower case, without English stop words, no stemming. The weight of each word in each text is
    precomputed, as in BM25S (arXiv 2407.03618): `weights` of the texts at `places`, those of word
    w from `starts[w]` to `starts[w + 1]`.
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
        nothing = np.zeros(0, np.int64)
        return cls._weigh((), nothing, nothing, nothing, 0).added(
            texts, range(len(texts))
        )

    def added(self, texts: Sequence[str], places: Sequence[int]) -> Self:
        """Return an index with these texts appended to those at their places.

        A new place is a new text. The result equals an index of all the texts.
        """
        ids = {word: number for number, word in enumerate(self.vocabulary)}
        words: list[int] = []
        counts: list[int] = []
        sizes = np.zeros(len(texts), np.int64)
        for number, text in enumerate(texts):
            found = Counter(_tokenize(text))
            sizes[number] = len(found)
            words += [ids.setdefault(word, len(ids)) for word in found]
            counts += found.values()
        own, own_places, own_times = self._count()
        place_of = np.repeat(np.array(places, np.int64), sizes)
        return self._weigh(
            tuple(ids),
            np.concatenate([own, np.array(words, np.int64)]),
            np.concatenate([own_places, place_of]),
            np.concatenate([own_times, np.array(counts, np.int64)]),
            max(int(self.n_texts), max(places, default=-1) + 1),
        )

    def kept(self, rows: NDArray[np.int64]) -> Self:
        """Return the index of the texts at some places, in this order."""
        word_of, place_of, times = self._count()
        places = np.full(int(self.n_texts), -1, np.int64)
        places[rows] = np.arange(len(rows))
        left = places[place_of] >= 0
        return self._weigh(
            self.vocabulary,
            word_of[left],
            places[place_of[left]],
            times[left],
            len(rows),
        )

    @classmethod
    def _weigh(
        cls,
        vocabulary: Sequence[str],
        word_of: NDArray[np.int64],
        place_of: NDArray[np.int64],
        times: NDArray[np.int64],
        n_texts: int,
    ) -> Self:
        """Build the index from word counts in the texts at some places."""
        index = cls()
        used, word_of = np.unique(word_of, return_inverse=True)
        entries, entry_of = np.unique(
            word_of * max(n_texts, 1) + place_of, return_inverse=True
        )
        word_of, place_of = np.divmod(entries, max(n_texts, 1))
        counts = np.bincount(entry_of, weights=times, minlength=len(entries))
        lengths = np.bincount(place_of, weights=counts, minlength=n_texts)
        having = np.bincount(word_of, minlength=len(used))
        mean = max(lengths.mean(), 1e-9) if n_texts else 1
        damped = _K1 * (1 - _B + _B * lengths[place_of] / mean)
        weights = _rarity(having, n_texts)[word_of] * counts / (damped + counts)
        index.weights, index.places = weights.astype(np.float32), place_of
        index.starts = np.concatenate([[0], np.cumsum(having)]).astype(np.int64)
        index.n_texts = np.array(n_texts)
        index.vocabulary = tuple(vocabulary[number] for number in used.tolist())
        return index

    def _count(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Recover word, place and count of each entry from the weights: a pack has no texts.

        With s the sum of times / damped over a text's words, its length is s * damped. The mean
        length is the fixed point of these lengths, found by bisection.
        """
        n, having = int(self.n_texts), np.diff(self.starts)
        word_of = np.repeat(np.arange(len(having)), having)
        if not len(word_of):
            return word_of, self.places, np.zeros(0, np.int64)
        shares = self.weights / _rarity(having, n)[word_of]
        odds = shares / (1 - shares)
        sums = np.bincount(self.places, weights=odds, minlength=n)
        low, high = 0.0, 1 / sums.max()
        for _ in range(64):
            middle = (low + high) / 2
            is_low = (sums * middle * (1 - _B) / (1 - sums * middle)).sum() < n * _B
            low, high = (middle, high) if is_low else (low, middle)
        damped = _K1 * (1 - _B) / (1 - sums * low)
        times = np.rint(odds * damped[self.places])
        return word_of, self.places, times.astype(np.int64)

    @classmethod
    def at(cls, folder: Path, texts: Sequence[str]) -> Self:
        """Load the index of texts from a folder, or build it if the folder does not exist.

        Raises:
            InputError: it is damaged, or the index of other texts.
        """
        if not folder.is_dir():
            return cls.of(texts)
        index = cls()
        index.load_state(folder, {})
        demand(int(index.n_texts) == len(texts), folder, "an index of other texts")
        return index

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read it.

        Raises:
            InputError: a file is missing or damaged, or one does not fit the others.
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
        """Whether no text has an indexed word."""
        return not self.vocabulary

    def scores(self, requests: Sequence[str]) -> NDArray[np.float32]:
        """Return BM25 [n_requests, n_texts] of each text; 0 without a shared word."""
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


def _rarity(having: NDArray[np.int64], n_texts: int) -> NDArray[np.float64]:
    """Inverse document frequency of words that so many of the texts have."""
    return np.asarray(np.log(1 + (n_texts - having + 0.5) / (having + 0.5)))


def _tokenize(text: str) -> list[str]:
    return [w for w in _WORD.findall(text.lower()) if w not in _STOP_WORDS]
