"""The tools and requests of a packed finder, on disk and parsed on demand."""

from __future__ import annotations

import json
import mmap
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from toolbank.bank.records import Tool, name_functions
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.search.format import AGAIN
from toolbank.system.errors import InputError
from toolbank.system.files import parse_json, read_json, read_text, reading, write_text

_TOOLS, _OFFSETS = "tools.jsonl", "offsets.npy"
_FACETS, _CALLED = "facets.json", "called.json"
_SHOWN = 20


@dataclass(frozen=True)
class Wanted:
    """Which tools may be hits: of one of these sources, kinds and tags each; all where empty."""

    sources: frozenset[str] = field(default_factory=frozenset)
    kinds: frozenset[str] = field(default_factory=frozenset)
    tags: frozenset[str] = field(default_factory=frozenset)

    def __bool__(self) -> bool:
        return bool(self.sources or self.kinds or self.tags)


ALL = Wanted()


class Catalogue(Sequence[Tool]):
    """The tools of a packed finder, in the order of its retrievers' indices.

    Threads may share one.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """Open the tools of a version.

        Raises:
            InputError: a file is missing or damaged, or has other tools than `names`.
        """
        self._path = folder / _TOOLS
        self.names = tuple(names)
        with reading(self._path), self._path.open("rb") as file:
            size = self._path.stat().st_size
            self._text: Any = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            )
        try:
            with reading(folder / _OFFSETS):
                self._offsets: NDArray[np.int64] = np.load(
                    folder / _OFFSETS, mmap_mode="r", allow_pickle=False
                )
        except ValueError as error:
            raise InputError(
                f"{folder / _OFFSETS}: damaged ({error}). {AGAIN}"
            ) from error
        fits = self._offsets.shape == (len(self.names) + 1,)
        if not fits or self._offsets[-1] != size:
            raise InputError(
                f"{self._path}: damaged (not the retrievers' tools). {AGAIN}"
            )
        # All is read here: the folder is deleted once there are two newer versions.
        self._called = _read(folder / _CALLED, {"functions", "exact", "endings"})
        self._facets = _read(folder / _FACETS, {"source", "kind", "tag"})

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        start, end = self._offsets[place], self._offsets[place + 1]
        try:
            return Tool.model_validate_json(self._text[start:end])
        except ValidationError as error:
            raise InputError(
                f"{self._path}: damaged (tool {place + 1} is none). {AGAIN}"
            ) from error

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each tool, by its name."""
        return {name: place for place, name in enumerate(self.names)}

    @property
    def functions(self) -> list[str]:
        """The name of each tool where functions are called: letters, digits, _ and -."""
        functions: list[str] = self._called["functions"]
        return functions

    @property
    def calls(self) -> dict[str, int]:
        """The position of the tool that a text names exactly, by the text in lower case.

        Names come before function names, and these before aliases and titles; what several
        tools are called is nobody's exact name; `places` has names in their own case.
        """
        exact: dict[str, int] = self._called["exact"]
        return exact

    @property
    def endings(self) -> dict[str, int]:
        """The position of the tool whose name alone ends so, by its last part in lower case."""
        endings: dict[str, int] = self._called["endings"]
        return endings

    @property
    def facets(self) -> dict[str, list[str]]:
        """The values of source, kind and tag that tools have, sorted."""
        return {name: sorted(self._facets[name]) for name in ("source", "kind", "tag")}

    def wanted(self, wanted: Wanted) -> NDArray[np.bool_]:
        """Which tools [n_tools] may be hits.

        Raises:
            InputError: no tool has one of the values.
        """
        fits = np.ones(len(self), np.bool_)
        for name, values in (
            ("source", wanted.sources),
            ("kind", wanted.kinds),
            ("tag", wanted.tags),
        ):
            if values:
                having = np.zeros(len(self), np.bool_)
                for value in sorted(values):
                    if value not in self._facets[name]:
                        raise InputError(_name_unknown(name, value, self.facets[name]))
                    having[self._facets[name][value]] = True
                fits &= having
        return fits


def _name_unknown(name: str, value: str, known: Sequence[str]) -> str:
    shown = ", ".join(value[:80] for value in known[:_SHOWN])
    more = f" and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else ""
    there = f"there are: {shown}{more}" if known else "there are none"
    return f"No tool has the {name} {value[:80]!r}; {there}."


def _read(path: Path, keys: set[str]) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or keys - set(content):
        raise InputError(f"{path}: damaged. {AGAIN}")
    return content


def write_catalogue(folder: Path, tools: Iterable[Tool]) -> None:
    """Write tools for a `Catalogue`; the same tools, the same bytes."""
    offsets = [0]
    facets: dict[str, dict[str, list[int]]] = {
        name: defaultdict(list) for name in ("source", "kind", "tag")
    }
    names: list[str] = []
    others: set[tuple[str, int]] = set()
    with (folder / _TOOLS).open("wb") as file:
        for place, tool in enumerate(tools):
            line = tool.model_dump_json().encode() + b"\n"
            offsets.append(offsets[-1] + file.write(line))
            for source in tool.sources:
                facets["source"][source].append(place)
            facets["kind"][tool.kind].append(place)
            for tag in dict.fromkeys(tool.tags):
                facets["tag"][tag].append(place)
            names.append(tool.name)
            others |= {(name, place) for name in (*tool.aliases, tool.title)}
    np.save(folder / _OFFSETS, np.array(offsets, np.int64), allow_pickle=False)
    write_text(folder / _FACETS, json.dumps(facets))
    by_name = name_functions(names)
    functions = [by_name[name] for name in names]
    exact = _find_exact(names, functions, sorted(others))
    endings = _find_single(
        zip((re.split(r"[./]", name)[-1] for name in names), count())
    )
    called = {"functions": functions, "exact": exact, "endings": endings}
    write_text(folder / _CALLED, json.dumps(called))


def _find_exact(
    names: Sequence[str], functions: Sequence[str], others: Iterable[tuple[str, int]]
) -> dict[str, int]:
    """See `Catalogue.calls`."""
    found: dict[str, int] = {}
    for called in (zip(names, count()), zip(functions, count()), others):
        found = _find_single(called) | found
    return found


def _find_single(called: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The position of what alone is called so, by the name in lower case."""
    found: dict[str, set[int]] = defaultdict(set)
    for name, place in called:
        found[name.casefold()].add(place)
    return {
        name: next(iter(places))
        for name, places in found.items()
        if len(places) == 1 and name
    }


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
