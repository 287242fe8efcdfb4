"""Write the rows of a publication: parquet shards by split, and the test queries as qrels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from toolbank.bank.bank import (
    Label,
    LabelledQuery,
    QueryLabels,
    apply_labels,
    group_labels,
    read_labels,
    read_profiles,
)
from toolbank.bank.files import make_frame, read_column, read_frames, read_records
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.datasets.published import ASIDE, shard_name

if TYPE_CHECKING:
    import polars as pl


R = TypeVar("R", bound=Record)

SHARD_ROWS = 50_000
_ROW_GROUP = 4096


class ShardWriter:
    """Writes records of one kind to NAME-00000-of-00003.parquet and so on.

    It is a context manager; at its end the files get their names. Without rows there is one file, or
    none if they are `optional`. `rows` counts the written rows. At most a few thousand rows are in
    memory.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        kind: type[Record],
        shard_rows: int = SHARD_ROWS,
        *,
        optional: bool = False,
    ) -> None:
        self.rows = 0
        self._folder, self._name, self._shard_rows = folder, name, shard_rows
        self._kind, self._optional = kind, optional
        self._held: list[Record] = []
        self._schema = _with_plain_types(_to_arrow(make_frame(kind, ())).schema)
        self._writer: Any = None
        self._in_shard = 0
        self._parts: list[Path] = []

    def write(self, record: Record) -> None:
        """Write a record of the kind."""
        self._held.append(record)
        if len(self._held) == _ROW_GROUP:
            self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            while self._held or not (self._parts or self._optional):
                self._write_group()
        if self._writer is not None:
            self._writer.close()
        if kind is None:
            for number, part in enumerate(self._parts):
                name = shard_name(self._name, number, len(self._parts))
                part.rename(self._folder / name)

    def _write_group(self) -> None:
        from pyarrow import parquet

        if self._writer is None:
            part = self._folder / f".{self._name}-{len(self._parts)}"
            self._parts.append(part)
            self._writer = parquet.ParquetWriter(part, self._schema, compression="zstd")
        length = min(_ROW_GROUP, self._shard_rows - self._in_shard, len(self._held))
        group = make_frame(self._kind, self._held[:length])
        self._held = self._held[length:]
        # An empty file gets no row group: `datasets` takes the size of its batches from the first.
        if length:
            self._writer.write_table(_to_arrow(group).cast(self._schema))
        self.rows += length
        self._in_shard += length
        if self._in_shard == self._shard_rows:
            self._writer.close()
            self._writer, self._in_shard = None, 0


def _to_arrow(frame: pl.DataFrame) -> Any:
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _with_plain_types(schema: Any) -> Any:
    """Replace polars' large strings and lists with those that every reader of parquet supports."""
    import pyarrow as pa

    return pa.schema([pa.field(one.name, _plain(one.type)) for one in schema])


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    return kind


@dataclass(frozen=True)
class RowCounts:
    """How many rows of each kind were written.

    `left_out` counts queries without a split, and `aside` those that a grade excluded from their
    split. `relabelled` counts the others whose merged labels differ from the first ones, and
    `graders` the queries by the kind of their grader.
    """

    tools: int
    queries: Mapping[str, int]
    asks: int = 0
    labels: int = 0
    left_out: int = 0
    aside: int = 0
    relabelled: int = 0
    graders: Mapping[str, int] = field(default_factory=dict)


def write_data(bank: Path, folder: Path, shard_rows: int = SHARD_ROWS) -> RowCounts:
    """Write the rows of a bank to a folder; the same bank gives the same bytes.

    `tools` of a query has the merged labels, `tools_first` the first ones. Only labels are read as
    a whole. Queries without a split are skipped with their labels.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout.
    """
    folder.mkdir()
    labels = read_labels(bank / "labels.parquet")
    found = read_records(bank / "tools.parquet", Tool)
    tools = _write(folder, "tools", Tool, found, shard_rows)
    n, left_out = _write_queries(bank, folder, shard_rows, group_labels(labels))
    asks: Iterable[Ask] = ()
    if (bank / "asks.parquet").is_file():
        asks = read_records(bank / "asks.parquet", Ask)
    kept = [label for label in labels if label.query not in left_out]
    graders = Counter({one.query: one.kind for one in kept}.values())
    return RowCounts(
        tools,
        {split: n[split] for split in get_args(Split)},
        _write(folder, "asks", Ask, asks, shard_rows, optional=True),
        _write(folder, "labels", Label, kept, shard_rows, optional=True),
        len(left_out),
        n[ASIDE],
        n["relabelled"],
        dict(sorted(graders.items())),
    )


def _write(
    folder: Path,
    name: str,
    kind: type[Record],
    records: Iterable[Record],
    shard_rows: int,
    *,
    optional: bool = False,
) -> int:
    with ShardWriter(folder, name, kind, shard_rows, optional=optional) as writer:
        for record in records:
            writer.write(record)
    return writer.rows


def _write_queries(
    bank: Path, folder: Path, shard_rows: int, verified: Mapping[str, QueryLabels]
) -> tuple[Counter[str], set[str]]:
    """Write the queries by split; gives their counts, and the ids of those without a split."""
    counts: Counter[str] = Counter()
    profiles = read_profiles(bank)
    left_out: set[str] = set()
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                ShardWriter(
                    folder, name, LabelledQuery, shard_rows, optional=name == ASIDE
                )
            )
            for name in (*get_args(Split), ASIDE)
        }
        for query in read_records(bank / "queries.parquet", Query):
            label = verified.get(query.id)
            labelled = apply_labels(query, label, profiles)
            if query.split is None:
                left_out.add(query.id)
            elif label and label.aside:
                writers[ASIDE].write(labelled)
            else:
                writers[query.split].write(labelled)
                is_other = set(labelled.tools) != set(labelled.tools_first)
                counts["relabelled"] += is_other
    return counts + Counter({name: one.rows for name, one in writers.items()}), left_out


NEEDED, ALTERNATIVE = 2, 1
"""Grades of a tool; other tools have no line."""

_FORBIDDEN = frozenset('%"')


@dataclass(frozen=True)
class QrelCounts:
    """How many requests have grades and verified grades, and how many lines each grade has.

    `unknown` counts labels that name no tool of the bank.
    """

    requests: int
    verified: int
    grades: Mapping[int, int]
    unknown: int


def write_qrels(data: Path, folder: Path) -> QrelCounts:
    """Write corpus.jsonl, queries.jsonl, qrels/test.tsv and qrels/test.trec from the shards in `data`.

    A needed tool has the grade 2, an alternative 1. Verified labels are used if a request has some,
    else its first ones, which only have needed tools.

    Raises:
        InputError: a shard can't be read.
    """
    ids = _write_corpus(data, folder / "corpus.jsonl")
    verified = _read_grades(data)
    counts: Counter[str] = Counter()
    grades: Counter[int] = Counter()
    (folder / "qrels").mkdir()
    with (
        (folder / "queries.jsonl").open("w", encoding="utf-8") as queries,
        (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as beir,
        (folder / "qrels" / "test.trec").open("w", encoding="utf-8") as trec,
    ):
        beir.write("query-id\tcorpus-id\tscore\n")
        for query in _read_shards(data, "test", LabelledQuery):
            found = verified.get(query.id)
            if found is None:
                found = dict.fromkeys(query.tools, NEEDED)
            by_id: dict[str, int] = {}
            for name, grade in found.items():
                if name in ids:
                    by_id[ids[name]] = max(grade, by_id.get(ids[name], 0))
                else:
                    counts["unknown"] += 1
            if not by_id:
                continue
            counts["requests"] += 1
            counts["verified"] += query.id in verified
            qid = as_id(query.id)
            queries.write(_line({"_id": qid, "text": query.query}))
            for tool, grade in by_id.items():
                grades[grade] += 1
                beir.write(f"{qid}\t{tool}\t{grade}\n")
                trec.write(f"{qid} 0 {tool} {grade}\n")
    by_grade = dict(sorted(grades.items(), reverse=True))
    return QrelCounts(
        counts["requests"], counts["verified"], by_grade, counts["unknown"]
    )


def as_id(name: str) -> str:
    """Encode a name for TREC: blanks and the like become percent-encoded."""
    return "".join(
        character
        if character.isprintable()
        and not character.isspace()
        and character not in _FORBIDDEN
        else "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))
        for character in name
    )


def _write_corpus(data: Path, path: Path) -> dict[str, str]:
    """Write the tools; gives their ids by all names."""
    ids: dict[str, str] = {}
    aliases: dict[str, str] = {}
    with path.open("w", encoding="utf-8") as corpus:
        for tool in _read_shards(data, "tools", Tool):
            ids[tool.name] = as_id(tool.name)
            for alias in tool.aliases:
                aliases.setdefault(alias, ids[tool.name])
            row = {"_id": ids[tool.name], "title": tool.name}
            corpus.write(_line({**row, "text": tool.full_description}))
    return aliases | ids


def _read_grades(data: Path) -> dict[str, dict[str, int]]:
    """Read the grades of tools by test query with merged labels."""
    import polars as pl

    shards = sorted(data.glob("test-*.parquet"))
    tested = {name for shard in shards for name in read_column(shard, "id")}
    grades: dict[str, dict[str, int]] = {}
    for shard in sorted(data.glob("labels-*.parquet")):
        for frame in read_frames(shard):
            rows = frame.filter(pl.col("query").is_in(list(tested)))
            for query, tool, grade in rows["query", "tool", "grade"].iter_rows():
                of = grades.setdefault(query, {})
                given = NEEDED if grade == "needed" else ALTERNATIVE
                of[tool] = max(given, of.get(tool, 0))
    return grades


def _read_shards(data: Path, name: str, kind: type[R]) -> Iterator[R]:
    for shard in sorted(data.glob(f"{name}-*.parquet")):
        yield from read_records(shard, kind)


def _line(row: Mapping[str, str]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
