"""The requests of a bank that went into a packed finder, and which are near to one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from toolbank.packed.layout import AGAIN
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.errors import InputError
from toolbank.system.files import parse_json, read_text

_FILE = "requests.jsonl"


@dataclass(frozen=True)
class NearRequest:
    """A request of the bank, the names of its tools, and BM25 of it to what was asked."""

    query: str
    tools: tuple[str, ...]
    score: float


class RequestIndex:
    """Requests by their words (BM25), indexed when they are first searched."""

    def __init__(self, lines: str, path: Path) -> None:
        self._lines, self._path = lines, path

    @staticmethod
    def lies_in(folder: Path) -> bool:
        """Whether a version has requests."""
        return (folder / _FILE).is_file()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what `write_requests` wrote.

        Raises:
            InputError: the file is missing or damaged.
        """
        path = folder / _FILE
        return cls(read_text(path), path)

    def prepare(self) -> None:
        """Index the requests, as the first `nearest` does otherwise.

        Raises:
            InputError: the file is damaged.
        """
        _ = self._index

    def nearest(self, query: str, n: int) -> list[NearRequest]:
        """The n nearest, best first; fewer where fewer share a word with it."""
        requests, index = self._index
        if not requests:
            return []
        scores = index.scores([query])[0]
        best = (-scores).argsort(kind="stable")[:n]
        found = [(*requests[place], float(scores[place])) for place in best]
        return [NearRequest(*one) for one in found if one[2] > 0]

    @cached_property
    def _index(self) -> tuple[list[tuple[str, tuple[str, ...]]], LexicalIndex]:
        found = []
        for line in filter(None, self._lines.split("\n")):
            row = parse_json(line, self._path)
            try:
                found.append((str(row["query"]), tuple(map(str, row["tools"]))))
            except (KeyError, TypeError) as error:
                raise InputError(f"{self._path}: damaged ({error}). {AGAIN}") from error
        return found, LexicalIndex.of([query for query, _ in found])


def write_requests(
    folder: Path, requests: Iterable[tuple[str, tuple[str, ...]]]
) -> None:
    """Write requests, and the names of their tools, for a `RequestIndex`."""
    with (folder / _FILE).open("w", encoding="utf-8", newline="\n") as file:
        for query, tools in requests:
            row = {"query": query, "tools": tools}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
