"""Texts that say the same again, found among any number of texts in little memory."""

from __future__ import annotations

import re
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor

from toolbank.generate.disk_list import full_folder

_COMPARED_WORD = re.compile(r"\w+")
_ROUNDING = 1e-9
# So many parts more than the pigeonhole needs: as many are left out of a search.
_SPARE_PARTS = 1
_SKETCH_BITS = 63
_CELLS = 2**20
_MANY = 2**16 - 1


class NearDuplicates:
    """Texts whose sets of word 3-grams overlap by a Jaccard index of `threshold` or more.

    Exact: it finds what a comparison with every text would find. Two sets of a and b 3-grams
    that are alike differ in at most d = (a + b) (1 - threshold) / (1 + threshold) of them. Where
    a hash deals the 3-grams into d + 1 parts, one part at least is the same in both, so a text
    is looked up by its parts (PartEnum of Arasu, Ganti and Kaushik, VLDB 2006, without its
    second level). Sizes are grouped, and a group's number of parts follows from its largest set;
    of a smaller set, and since one part more is dealt, not all parts need be looked up: the
    commonest are left out. Of the texts found so, a sketch of 63 bits rules out most, and the
    overlap itself decides.

    Parts lie in a temporary file, about 0.4 kB a text; memory does not grow with them. `text_at`
    gives a text that was added, by its number from 0.
    Nor does the time of a search, where the threshold is 0.7 or more; far below that the parts
    become small and common.
    """

    def __init__(self, threshold: float, text_at: Callable[[int], str]) -> None:
        self._text_at = text_at
        self._threshold = threshold
        self._share = (1 - threshold) / (1 + threshold)
        self._count = 0
        # The largest set of each group of sizes; group 0 holds none.
        self._largest = [0]
        # How many texts have a part: about, since parts share cells.
        self._common = array("H", bytes(2 * _CELLS))
        # SQLite keeps it in a deleted file, and at most 2 MB of it in memory.
        self._database = sqlite3.connect(
            "", isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(
            "CREATE TABLE parts (signature INTEGER, id INTEGER, sketch INTEGER, "
            "PRIMARY KEY (signature, id)) WITHOUT ROWID"
        )

    def find_like(self, text: str) -> int | None:
        """The number of the first text that is like this one, counted from 0, if there is one."""
        grams = _grams(text)
        sketch = _sketch(grams)
        most = floor(len(grams) * (1 - self._threshold) / self._threshold + _ROUNDING)
        for number, other in sorted(self._candidates(grams)):
            if (sketch ^ other).bit_count() <= most:
                overlap = _jaccard(grams, _grams(self._text_at(number)))
                if overlap >= self._threshold:
                    return number
        return None

    def add(self, text: str) -> None:
        """Remember a text.

        Raises:
            ToolbankError: the folder for temporary files is full.
        """
        grams = _grams(text)
        sketch = _sketch(grams)
        parts = self._parts([hash(gram) for gram in grams], self._group(len(grams)))
        try:
            self._database.executemany(
                "INSERT OR IGNORE INTO parts VALUES (?, ?, ?)",
                [(part, self._count, sketch) for part in parts],
            )
        except sqlite3.OperationalError as error:
            raise full_folder(error) from error
        for part in parts:
            cell = part % _CELLS
            self._common[cell] = min(self._common[cell] + 1, _MANY)
        self._count += 1

    def _candidates(self, grams: set[str]) -> set[tuple[int, int]]:
        """Number and sketch of the texts that have a part in common."""
        parts = list(self._rare_parts(grams))
        marks = ", ".join("?" * len(parts))
        return set(
            self._database.execute(
                f"SELECT id, sketch FROM parts WHERE signature IN ({marks})",  # noqa: S608
                parts,
            )
        )

    def _rare_parts(self, grams: set[str]) -> Iterator[int]:
        """The signatures to look up, in each group that holds sets like this one."""
        hashes = [hash(gram) for gram in grams]
        longest = floor(len(grams) / self._threshold + _ROUNDING)
        first = self._group(ceil(len(grams) * self._threshold - _ROUNDING))
        for group in range(first, self._group(longest) + 1):
            parts = self._parts(hashes, group)
            other = min(longest, self._largest[group])
            differ = floor((len(grams) + other) * self._share + _ROUNDING)
            parts.sort(key=self._commonness)
            yield from parts[: differ + 1]

    def _parts(self, hashes: Sequence[int], group: int) -> list[int]:
        """The signatures of all parts of a set, as sets of a group are dealt."""
        largest = self._largest[group]
        like = floor(largest / self._threshold + _ROUNDING)
        differ = floor((largest + like) * self._share + _ROUNDING)
        count = differ + 1 + (_SPARE_PARTS if differ else 0)
        sums = [0] * count
        for hashed in hashes:
            sums[hashed % count] += hashed
        return [hash((group, *part)) for part in enumerate(sums)]

    def _commonness(self, signature: int) -> int:
        return self._common[signature % _CELLS]

    def _group(self, size: int) -> int:
        """The group of a set's size."""
        while self._largest[-1] < size:
            smallest = self._largest[-1] + 1
            self._largest.append(floor(smallest / self._threshold + _ROUNDING))
        return bisect_left(self._largest, size)


def _grams(text: str) -> set[str]:
    words = _COMPARED_WORD.findall(text.lower())
    return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def _sketch(grams: set[str]) -> int:
    """Sets that differ in n members have sketches that differ in at most n bits."""
    bits = 0
    for gram in grams:
        bits |= 1 << hash(gram) % _SKETCH_BITS
    return bits


def _jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second)
