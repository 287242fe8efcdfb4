"""Pool the tools that are graded for a request, and check labels without a model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_records, write_records
from toolbank.bank.records import Record, Tool
from toolbank.requests.verify import Check
from toolbank.requests.verify.directions import (
    ROUND_TRIP,
    Directions,
    merge_rankings,
    own_labels,
)
from toolbank.retrievers.base import all_words
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.sources.merge import find_aliases
from toolbank.system.errors import InputError
from toolbank.system.files import read_text, sha256_file, write_text

if TYPE_CHECKING:
    from toolbank.bank.records import Query


_HASH = ".sha256"

_R = TypeVar("_R", bound=Record)

_ADVICE = (
    "Restore it, or delete it: candidates are then pooled again, and requests whose candidates "
    "change are graded again."
)


class Candidate(Record):
    """A tool that is graded for a request, and what found it.

    `key` is a hash of the request, its labels and the bank's tools; if it changes, the request's
    candidates are pooled again. `rank` is the rank of a label by Tool2Vec, from 1; 0 for other
    tools and beyond the retrieved ones. `call_number` is that of the call that shows it, 1 or 2.
    """

    query: str
    key: str
    tool: str
    found_by: tuple[str, ...]
    rank: int = 0
    call_number: int = 1


def pool_candidates(
    bank: Bank,
    most: int,
    path: Path,
    tools_id: str,
    directions: Callable[[], Directions],
    graded: Collection[str] = (),
) -> dict[str, list[Candidate]]:
    """Pool the candidates of the first calls, or take them from `path`; returned by request id.

    `tools_id` identifies the bank's tools. Earlier candidates stay in the file if their key is
    among `graded`, because grades refer to them. New candidates are on disk before this returns.

    Raises:
        InputError: the file is damaged, or the encoder can't be loaded.
    """
    keys = {query.id: _key(query, most, tools_id) for query in bank.queries}
    kept: dict[str, list[Candidate]] = {}
    earlier: list[Candidate] = []
    rows = list(read_candidates(path))
    for row in rows:
        if keys.get(row.query) == row.key and row.call_number < _FURTHER:
            kept.setdefault(row.query, []).append(row)
        elif keys.get(row.query) == row.key or row.key in graded:
            earlier.append(row)
    new = [query for query in bank.queries if query.id not in kept]
    pooled = pool_requests(directions(), new, most) if new else {}
    for query, found in pooled.items():
        kept[query] = [row.model_copy(update={"key": keys[query]}) for row in found]
    # The present candidates of a request come first in the file.
    if {row.query: row.key for row in reversed(rows)}.items() >= keys.items():
        return kept
    present = (row for query in bank.queries for row in kept[query.id])
    write_hashed(path, Candidate, chain(present, earlier))
    return kept


_FURTHER = 2


def add_further(path: Path, further: Iterable[Candidate]) -> None:
    """Add the candidates of second calls to the file, each once, sorted after the others."""
    rows = list(read_candidates(path))
    second = {_identify(row): row for row in rows if row.call_number == _FURTHER}
    known = len(second)
    for row in further:
        second.setdefault(_identify(row), row)
    if len(second) > known:
        first = (row for row in rows if row.call_number != _FURTHER)
        write_hashed(path, Candidate, chain(first, (second[k] for k in sorted(second))))


def _identify(row: Candidate) -> tuple[str, str, str]:
    return row.query, row.key, row.tool


def read_candidates(path: Path) -> Iterator[Candidate]:
    """Read a candidates.parquet, the present ones of a request first; none if there is no file.

    Raises:
        InputError: the file is damaged.
    """
    return read_hashed(path, Candidate, _ADVICE)


def read_shown(path: Path) -> dict[tuple[str, str], list[str]]:
    """Read the tools of the first call by request and key; none if there is no file."""
    shown: dict[tuple[str, str], list[str]] = {}
    for row in read_candidates(path):
        if row.call_number < _FURTHER:
            shown.setdefault((row.query, row.key), []).append(row.tool)
    return shown


def read_hashed(path: Path, kind: type[_R], advice: str) -> Iterator[_R]:
    """Read the records of a file that `write_hashed` wrote; none if there is no file.

    Raises:
        InputError: the file is damaged; `advice` says what to do.
    """
    if not path.exists():
        return
    mark = path.with_suffix(_HASH)
    if mark.exists() and read_text(mark).strip() != sha256_file(path):
        raise InputError(
            f"{path}: damaged, or changed since it was written ({mark.name} has another hash). "
            f"{advice}"
        )
    yield from read_records(path, kind)
    # The file is older than hashes, or its writing was interrupted before the hash.
    if not mark.exists():
        write_text(mark, sha256_file(path) + "\n")


def write_hashed(path: Path, kind: type[_R], rows: Iterable[_R]) -> None:
    """Write records to a file atomically, and its hash to a second file."""
    mark = path.with_suffix(_HASH)
    mark.unlink(missing_ok=True)
    write_records(path, kind, rows)
    write_text(mark, sha256_file(path) + "\n")


def _key(query: Query, most: int, tools_id: str) -> str:
    content = json.dumps([query.query, query.tools, most, tools_id])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def pool_requests(
    directions: Directions, queries: Sequence[Query], most: int
) -> dict[str, list[Candidate]]:
    """Pool up to `most` candidates of each request: labels, their twins, and others.

    They are returned by request id, without a key. Labels and twins are in even if they are more.
    """
    bank = directions.bank
    pooled: dict[str, list[Candidate]] = {}
    for query, groups in zip(queries, directions.group(queries), strict=True):
        by: dict[str, tuple[str, ...]]
        by = dict.fromkeys(own_labels(bank, query), ("label",))
        ranks = directions.rank_held_out(query)
        ranks = {name: ranks.get(name, 0) for name in by}
        for name in list(by):
            for twin in bank.tools[bank.index[name]].twins:
                by.setdefault(twin, ("twin",))
        by |= merge_rankings(groups, most - len(by), by)
        make = partial(Candidate, query=query.id, key="")
        pooled[query.id] = [
            make(tool=name, found_by=found, rank=ranks.get(name, 0))
            for name, found in by.items()
        ]
    return pooled


# "Use isin instead", "in favor of :func:`isin`", "renamed to `np.isin`".
_NAME = r" (?:the )?(?::\w+:)?[`~'\"]*([a-z_][\w.]*\w)"
_INSTEAD = (
    re.compile(
        rf"\b(?:use|in favou?r of|(?:replaced|superseded) (?:by|with)|renamed to){_NAME}",
        re.I,
    ),
    re.compile(rf"\b(?:of|by|to|with){_NAME}", re.I),
)


class Finding(Record):
    """What a check found in a label of a request; `instead` is the tool to use in its place.

    `text` is the request that was checked; version 0.7.0 did not store it.
    """

    query: str
    text: str = ""
    check: Check
    tool: str
    instead: str = ""
    detail: str = ""


def check_labels(
    bank: Bank, candidates: Mapping[str, Sequence[Candidate]]
) -> Iterator[Finding]:
    """Check the labels request by request.

    - `deprecated`: the tool's reference says so; `instead` is the tool that it names.
    - `alias`: the reference says that the tool is another name of `instead`.
    - `unspoken`: the request's explanation has no word in common with the tool's reference.
    - `round-trip`: no label of the request is among the top 50 of Tool2Vec fitted without it.
    """
    aliases = find_aliases(bank.tools)
    instead = {
        tool.name: _find_replacement(tool, bank)
        for tool in bank.tools
        if tool.deprecated
    }
    words = LexicalIndex.of([all_words(tool) for tool in bank.tools])
    for query in bank.queries:
        labels = own_labels(bank, query)
        find = partial(Finding, query=query.id, text=query.query)
        shared = words.scores([query.explanation])[0]
        for name in labels:
            tool = bank.tools[bank.index[name]]
            if tool.deprecated:
                yield find(
                    check="deprecated",
                    tool=name,
                    instead=instead[name] or aliases.get(name, ""),
                    detail=tool.deprecated,
                )
            elif name in aliases:
                yield find(check="alias", tool=name, instead=aliases[name])
            if query.explanation and not shared[bank.index[name]]:
                yield find(check="unspoken", tool=name)
        ranks = {row.tool: row.rank for row in candidates[query.id]}
        if labels and not any(0 < ranks.get(name, 0) <= ROUND_TRIP for name in labels):
            yield find(check="round-trip", tool=labels[0])


def select_findings(bank: Bank, findings: Iterable[Finding]) -> list[Finding]:
    """Select the earlier findings that still apply to the requests and labels of a bank."""
    queries = {query.id: query for query in bank.queries}
    return [
        one
        for one in findings
        if (query := queries.get(one.query))
        and one.text in ("", query.query)
        and one.tool in own_labels(bank, query)
        and (not one.instead or one.instead in bank.index)
    ]


def _find_replacement(tool: Tool, bank: Bank) -> str:
    """The tool that a deprecation note recommends, looked up from the own module outwards."""
    around = tool.name.split(".")[:-1]
    for said in (said for one in _INSTEAD for said in one.findall(tool.deprecated)):
        # A package may be called by its short name there, as np.
        for name in (said, said.rpartition(".")[2]):
            for depth in range(len(around), -1, -1):
                place = bank.index.get(".".join((*around[:depth], name)))
                if place is not None and bank.tools[place].name != tool.name:
                    return bank.tools[place].name
    return ""
