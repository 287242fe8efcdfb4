"""The test requests as BEIR and TREC have them: corpus, queries, graded relevance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolbank.bank.bank import LabelledQuery
from toolbank.bank.files import read_frames, read_records
from toolbank.bank.records import Tool

NEEDED, ALTERNATIVE = 2, 1
"""Grades of a tool; one that is not needed has no line."""

_FORBIDDEN = frozenset('%"')


@dataclass(frozen=True)
class Judged:
    """How many requests have grades, how many of these verified ones, and how many lines by grade.

    `unknown` counts labels that name no tool of the bank.
    """

    requests: int
    verified: int
    grades: Mapping[int, int]
    unknown: int


def write_qrels(data: Path, folder: Path) -> Judged:
    """Write corpus.jsonl, queries.jsonl, qrels/test.tsv and qrels/test.trec of published shards.

    `data` holds the shards. A needed tool has the grade 2, one that would serve in its place 1;
    both by the verified labels of a request where it has some, and else by its first ones, which
    know needed tools alone.

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
        for query in _test_queries(data):
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
    of = counts
    return Judged(of["requests"], of["verified"], by_grade, of["unknown"])


def as_id(name: str) -> str:
    """A name as it can stand in a line of TREC's: blanks and the like percent-encoded."""
    if all(_may_stand(sign) for sign in name):
        return name
    return "".join(
        sign
        if _may_stand(sign)
        else "".join(f"%{byte:02X}" for byte in sign.encode("utf-8"))
        for sign in name
    )


def _may_stand(sign: str) -> bool:
    return sign.isprintable() and not sign.isspace() and sign not in _FORBIDDEN


def _write_corpus(data: Path, path: Path) -> dict[str, str]:
    """Write the tools; gives the id of each by all of its names."""
    ids: dict[str, str] = {}
    aliases: dict[str, str] = {}
    with path.open("w", encoding="utf-8") as corpus:
        for shard in sorted(data.glob("tools-*.parquet")):
            for tool in read_records(shard, Tool):
                ids[tool.name] = as_id(tool.name)
                for alias in tool.aliases:
                    aliases.setdefault(alias, ids[tool.name])
                row = {"_id": ids[tool.name], "title": tool.name}
                corpus.write(_line({**row, "text": tool.full_description}))
    return aliases | ids


def _read_grades(data: Path) -> dict[str, dict[str, int]]:
    """By test request that has merged labels, its tools' grades."""
    import polars as pl

    tested = {
        name
        for shard in sorted(data.glob("test-*.parquet"))
        for frame in read_frames(shard)
        for name in frame["id"]
    }
    grades: dict[str, dict[str, int]] = {}
    for shard in sorted(data.glob("labels-*.parquet")):
        for frame in read_frames(shard):
            rows = frame.filter(pl.col("query").is_in(list(tested)))
            for query, tool, grade in rows["query", "tool", "grade"].iter_rows():
                of = grades.setdefault(query, {})
                given = NEEDED if grade == "needed" else ALTERNATIVE
                of[tool] = max(given, of.get(tool, 0))
    return grades


def _test_queries(data: Path) -> Iterator[LabelledQuery]:
    for shard in sorted(data.glob("test-*.parquet")):
        yield from read_records(shard, LabelledQuery)


def _line(row: Mapping[str, str]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
