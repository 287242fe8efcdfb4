"""Find near-duplicates among any number of texts in little memory."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from io import SEEK_END
from math import ceil, floor
from typing import Generic, TypeVar

from pydantic import BaseModel

from toolbank.bank.records import Query
from toolbank.system.errors import ToolbankError

_Record = TypeVar("_Record", bound=BaseModel)


class DiskList(Collection[_Record], Generic[_Record]):
    """A list of records of one kind in a temporary file, which is deleted with the process.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """

    def __init__(self, kind: type[_Record]) -> None:
        self._kind = kind
        self._file = tempfile.TemporaryFile(dir=_temporary_folder())  # noqa: SIM115
        self._ends = array("Q", [0])

    def append(self, record: _Record) -> None:
        """Append a record."""
        written = record.model_dump_json().encode()
        try:
            self._file.write(written)
        except OSError as error:
            raise full_folder(error) from error
        self._ends.append(self._ends[-1] + len(written))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[_Record]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, position: int) -> _Record:
        start, end = self._ends[position], self._ends[position + 1]
        try:
            self._file.seek(start)
        except OSError as error:
            # Seeking first writes what was appended.
            raise full_folder(error) from error
        written = self._file.read(end - start)
        self._file.seek(0, SEEK_END)
        return self._kind.model_validate_json(written)

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)


def _temporary_folder() -> str | None:
    """The folder that SQLite uses for temporary files; /tmp is often in memory."""
    named = os.environ.get("TMPDIR")
    return named or next(filter(os.path.isdir, ["/var/tmp"]), None)  # noqa: S108


def full_folder(error: Exception) -> ToolbankError:
    """Explain what to do if there is no room for temporary files."""
    return ToolbankError(
        f"the folder for temporary files is full ({error}). Free some space, or name another "
        "folder in the environment variable TMPDIR, and run the same command again. The replies "
        "are in the journal."
    )


_COMPARED_WORD = re.compile(r"\w+")
_ROUNDING = 1e-9
# Parts beyond those that the pigeonhole principle needs; a search can skip as many.
_SPARE_PARTS = 1
_SKETCH_BITS = 63
_CELLS = 2**20
_MANY = 2**16 - 1


class NearDuplicates:
    """Find texts whose sets of word 3-grams have a Jaccard index of `threshold` or more.

    The result is exact, as if every text were compared. Two similar sets of a and b 3-grams differ
    in at most d = (a + b) (1 - threshold) / (1 + threshold) of them. If a hash divides the 3-grams
    into d + 1 parts, at least one part is equal in both sets, so a text is looked up by its parts
    (PartEnum of Arasu, Ganti and Kaushik, VLDB 2006, without its second level). Sizes are grouped,
    and the largest set of a group determines its number of parts. A smaller set, and one spare
    part, allow a search to skip the most common parts. A sketch of 63 bits rules out most of the
    texts found, and the overlap itself decides.

    The parts are in a temporary file, about 0.4 kB per text. Memory does not grow with them, nor
    does the time of a search for thresholds of 0.7 or more; far below, parts become small and
    common. `text_at` returns an added text by its number from 0.
    """

    def __init__(self, threshold: float, text_at: Callable[[int], str]) -> None:
        self._text_at = text_at
        self._threshold = threshold
        self._share = (1 - threshold) / (1 + threshold)
        self._count = 0
        # The largest set of each group of sizes; group 0 is empty.
        self._largest = [0]
        # About how many texts have a part; parts share cells.
        self._common = array("H", bytes(2 * _CELLS))
        # SQLite keeps it in a deleted file, with at most 2 MB in memory.
        self._database = sqlite3.connect(
            "", isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(
            "CREATE TABLE parts (signature INTEGER, id INTEGER, sketch INTEGER, "
            "PRIMARY KEY (signature, id)) WITHOUT ROWID"
        )

    def find_like(self, text: str) -> int | None:
        """Find the number of the first similar text, counted from 0."""
        return next((number for number, _ in self.find_all(text)), None)

    def find_all(self, text: str) -> Iterator[tuple[int, float]]:
        """Find the numbers of all similar texts in their order, each with its Jaccard index."""
        grams = word_grams(text)
        sketch = _sketch(grams)
        most = floor(len(grams) * (1 - self._threshold) / self._threshold + _ROUNDING)
        for number, other in sorted(self._candidates(grams)):
            if (sketch ^ other).bit_count() <= most:
                jaccard = measure_jaccard(grams, word_grams(self._text_at(number)))
                if jaccard >= self._threshold:
                    yield number, jaccard

    def add(self, text: str) -> None:
        """Add a text.

        Raises:
            ToolbankError: the folder for temporary files is full.
        """
        grams = word_grams(text)
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
        """The number and sketch of the texts with an equal part."""
        parts = list(self._rare_parts(grams))
        marks = ", ".join("?" * len(parts))
        return set(
            self._database.execute(
                f"SELECT id, sketch FROM parts WHERE signature IN ({marks})",  # noqa: S608
                parts,
            )
        )

    def _rare_parts(self, grams: set[str]) -> Iterator[int]:
        """The signatures to look up, in each group with sets of similar sizes."""
        hashes = [hash(gram) for gram in grams]
        longest = floor(len(grams) / self._threshold + _ROUNDING)
        first = self._group(ceil(len(grams) * self._threshold - _ROUNDING))
        for group in range(first, self._group(longest) + 1):
            parts = self._parts(hashes, group)
            other = min(longest, self._largest[group])
            differ = floor((len(grams) + other) * self._share + _ROUNDING)
            parts.sort(key=lambda part: self._common[part % _CELLS])
            yield from parts[: differ + 1]

    def _parts(self, hashes: Sequence[int], group: int) -> list[int]:
        """The signatures of all parts of a set, divided as the sets of a group are."""
        largest = self._largest[group]
        like = floor(largest / self._threshold + _ROUNDING)
        differ = floor((largest + like) * self._share + _ROUNDING)
        count = differ + 1 + (_SPARE_PARTS if differ else 0)
        sums = [0] * count
        for hashed in hashes:
            sums[hashed % count] += hashed
        return [hash((group, *part)) for part in enumerate(sums)]

    def _group(self, size: int) -> int:
        """The group of a set's size."""
        while self._largest[-1] < size:
            smallest = self._largest[-1] + 1
            self._largest.append(floor(smallest / self._threshold + _ROUNDING))
        return bisect_left(self._largest, size)


def measure_jaccard(one: Set[str], other: Set[str]) -> float:
    """Compute the Jaccard index of two sets that are not both empty, from 0 to 1."""
    return len(one & other) / len(one | other)


def compared_words(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return _COMPARED_WORD.findall(text.lower())


def word_grams(text: str) -> set[str]:
    """Return the 3-grams of a text's words, or the whole text if it has fewer than three."""
    words = compared_words(text)
    return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def _sketch(grams: set[str]) -> int:
    """Bits of which at most n differ between sets that differ in n members."""
    bits = 0
    for gram in grams:
        bits |= 1 << hash(gram) % _SKETCH_BITS
    return bits


ALIKE = 0.8
"""Jaccard index of word 3-grams from which two requests are near-duplicates."""


def find_across_splits(queries: Sequence[Query]) -> Collection[int]:
    """Find the positions of requests with a near-duplicate in a held-out split.

    These are requests of train similar to test or validation, and of validation similar to test.
    """
    texts: list[str] = []
    seen = NearDuplicates(ALIKE, texts.__getitem__)
    found: set[int] = set()
    for split in ("test", "validation", "train"):
        rows = [row for row, query in enumerate(queries) if query.split == split]
        for row in rows:
            if seen.find_like(queries[row].query) is not None:
                found.add(row)
        if split != "train":
            for row in rows:
                texts.append(queries[row].query)
                seen.add(queries[row].query)
    return found
