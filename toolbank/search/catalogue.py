"""The tools and requests of a finder; those on disk are parsed on demand."""

from __future__ import annotations

import json
import mmap
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import eq
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from toolbank.bank.records import Tool, name_functions
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.search.folder import refusing_damage
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, read_text, write_text

_TOOLS, _OFFSETS = "tools.jsonl", "offsets.npy"
_FACETS, _CALLED = "facets.json", "called.json"
_KEYS = ("source", "kind", "tag")
_SHOWN = 20


@dataclass(frozen=True)
class ToolFilter:
    """Which tools may be hits: those with one of these sources, kinds and tags; empty means all."""

    sources: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()


ALL = ToolFilter()


class _ToolLines(Sequence[Tool]):
    """Tools on disk, mapped into memory and parsed on demand."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _TOOLS
        self._offsets: NDArray[np.int64] = open_memmap(  # type: ignore[no-untyped-call]
            folder / _OFFSETS, mode="r"
        )
        self._text: Any = b""
        if len(self):
            with self._path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        place = range(len(self))[index]
        start, end = self._offsets[place], self._offsets[place + 1]
        with refusing_damage(self._path):
            return Tool.model_validate_json(self._text[start:end])

    def holds(self, n_tools: int) -> bool:
        """Whether the files are complete, with as many tools."""
        fits = self._offsets.shape == (n_tools + 1,)
        return fits and bool(self._offsets[-1] == len(self._text))


class ToolCatalogue(Sequence[Tool]):
    """The tools of a finder in the order of the retrievers' indices, with their names.

    Threads may share one. Two are equal if they have the same tools.
    """

    def __init__(self, tools: Sequence[Tool], names: Sequence[str] = ()) -> None:
        """Give the `names` of the tools if they are known without parsing the tools."""
        self._tools = tools
        self.names = tuple(names or (tool.name for tool in tools))

    @classmethod
    def read(cls, folder: Path, names: Sequence[str]) -> Self:
        """Open what `write` wrote; the folder may be deleted afterwards.

        Raises:
            ValueError: it is damaged, or has other tools than `names`.
        """
        catalogue = cls(lines := _ToolLines(folder), names)
        called = catalogue._called = read_json(folder / _CALLED)
        facets = catalogue._facets = read_json(folder / _FACETS)
        if not (
            lines.holds(len(names))
            and called.keys() >= {"functions", "exact", "endings"}
            and facets.keys() >= {*_KEYS}
        ):
            raise ValueError("the tools are not those of the retrievers")
        return catalogue

    def write(self, folder: Path) -> None:
        """Write the tools; the same tools give the same bytes."""
        offsets = [0]
        with (folder / _TOOLS).open("wb") as file:
            for tool in self:
                line = tool.model_dump_json().encode() + b"\n"
                offsets.append(offsets[-1] + file.write(line))
        np.save(folder / _OFFSETS, np.array(offsets, np.int64), allow_pickle=False)
        write_text(folder / _FACETS, json.dumps(self._facets))
        write_text(folder / _CALLED, json.dumps(self._called))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._tools[place] for place in range(*index.indices(len(self)))]
        return self._tools[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each tool, by its name."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def _called(self) -> dict[str, Any]:
        by_name = name_functions(list(self.names))
        functions = [by_name[name] for name in self.names]
        others = {
            (name, place)
            for place, tool in enumerate(self)
            for name in (*tool.aliases, tool.title)
        }
        exact: dict[str, int] = {}
        for called in (
            zip(self.names, count()),
            zip(functions, count()),
            sorted(others),
        ):
            exact = _find_single(called) | exact
        endings = _find_single(
            zip((re.split(r"[./]", name)[-1] for name in self.names), count())
        )
        return {"functions": functions, "exact": exact, "endings": endings}

    @cached_property
    def _facets(self) -> dict[str, dict[str, list[int]]]:
        facets: dict[str, dict[str, list[int]]] = {
            name: defaultdict(list) for name in _KEYS
        }
        for place, tool in enumerate(self):
            for source in tool.sources:
                facets["source"][source].append(place)
            facets["kind"][tool.kind].append(place)
            for tag in dict.fromkeys(tool.tags):
                facets["tag"][tag].append(place)
        return facets

    @property
    def functions(self) -> list[str]:
        """The function name of each tool: letters, digits, _ and -."""
        functions: list[str] = self._called["functions"]
        return functions

    @property
    def calls(self) -> dict[str, int]:
        """The position of the tool for each exact name, in lower case.

        Names come before function names, and these before aliases and titles. A name that several
        tools share is not exact. `places` has names in their own case.
        """
        exact: dict[str, int] = self._called["exact"]
        return exact

    @property
    def endings(self) -> dict[str, int]:
        """The position of the tool for each last part of a name, in lower case, if it is unique."""
        endings: dict[str, int] = self._called["endings"]
        return endings

    @property
    def facets(self) -> dict[str, list[str]]:
        """The values of source, kind and tag that tools have, sorted."""
        return {name: sorted(self._facets[name]) for name in _KEYS}

    def select(self, wanted: ToolFilter) -> NDArray[np.bool_]:
        """Make a mask [n_tools] of the tools that may be hits.

        Raises:
            InputError: no tool has one of the values; the known ones.
        """
        fits = np.ones(len(self), np.bool_)
        chosen = (wanted.sources, wanted.kinds, wanted.tags)
        for name, values in zip(_KEYS, chosen, strict=True):
            if values:
                having = np.zeros(len(self), np.bool_)
                for value in sorted(values):
                    if value not in self._facets[name]:
                        raise InputError(_name_unknown(name, value, self.facets[name]))
                    having[self._facets[name][value]] = True
                fits &= having
        return fits


def _name_unknown(name: str, value: str, known: Sequence[str]) -> str:
    shown = ", ".join(one[:80] for one in known[:_SHOWN]) or "none"
    more = f" and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else ""
    return f"No tool has the {name} {value[:80]!r}; there are: {shown}{more}."


def _find_single(called: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The positions of unique names, in lower case."""
    found: dict[str, set[int]] = defaultdict(set)
    for name, place in called:
        found[name.casefold()].add(place)
    return {
        name: next(iter(places))
        for name, places in found.items()
        if len(places) == 1 and name
    }


_FILE = "requests.jsonl"
Requests = Iterable[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class NearRequest:
    """A request of the bank, the names of its tools, and its BM25 score for the query."""

    query: str
    tools: tuple[str, ...]
    score: float


class RequestIndex:
    """A BM25 index of requests, built by the first search."""

    def __init__(self, lines: str, path: Path = Path(_FILE)) -> None:
        self._lines, self._path = lines, path

    @classmethod
    def of(cls, requests: Requests) -> Self:
        """Index requests with the names of their tools."""
        rows = ({"query": query, "tools": tools} for query, tools in requests)
        return cls("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read what `write` wrote; None if there is nothing."""
        path = folder / _FILE
        return cls(read_text(path), path) if path.is_file() else None

    def write(self, folder: Path) -> None:
        """Write the requests."""
        write_text(folder / _FILE, self._lines)

    def prepare(self) -> None:
        """Build the index now instead of in the first `nearest`.

        Raises:
            InputError: the file is damaged.
        """
        _ = self._index

    def nearest(self, query: str, n: int) -> list[NearRequest]:
        """Find the n nearest requests, best first; fewer if fewer share a word with it."""
        requests, index = self._index
        scores = index.scores([query])[0]
        best = (-scores).argsort(kind="stable")[:n]
        return [
            NearRequest(*requests[int(place)], float(scores[place]))
            for place in best
            if scores[place] > 0
        ]

    @cached_property
    def _index(self) -> tuple[list[tuple[str, tuple[str, ...]]], LexicalIndex]:
        with refusing_damage(self._path):
            rows = map(json.loads, filter(None, self._lines.split("\n")))
            found = [(str(row["query"]), tuple(map(str, row["tools"]))) for row in rows]
        return found, LexicalIndex.of([query for query, _ in found])
