"""Write tools, queries and graded labels in the layouts of BEIR and TREC, and runs of retrievers."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolbank.bank.bank import NEEDED, LabelledQuery, QueryLabels
from toolbank.bank.records import Query, Split, Tool
from toolbank.evaluation import VERIFIED
from toolbank.evaluation.evaluate import iterate_hits

BEIR_SPLITS: dict[Split, str] = {"train": "train", "validation": "dev", "test": "test"}
"""BEIR's names of the splits."""

_FORBIDDEN = frozenset('%"')


@dataclass
class QrelCounts:
    """How many requests of a split have grades and verified grades, and how many lines each grade has.

    `unknown` counts labels that name no tool of the bank.
    """

    requests: int = 0
    verified: int = 0
    unknown: int = 0
    grades: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True)
class GradedQuery:
    """A query and the grade of each tool that fits it, by their ids (`as_id`)."""

    id: str
    text: str
    grades: Mapping[str, int]


class Corpus:
    """The tools by their ids; labels may use any of their names."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._aliases: dict[str, str] = {}

    def rows(self, tools: Iterable[Tool]) -> Iterator[dict[str, str]]:
        """Yield the rows of corpus.jsonl, and take note of the names."""
        for tool in tools:
            self._ids[tool.name] = as_id(tool.name)
            for alias in tool.aliases:
                self._aliases.setdefault(alias, self._ids[tool.name])
            row = {"_id": self._ids[tool.name], "title": tool.name}
            yield {**row, "text": tool.full_description}

    def grade(
        self,
        queries: Iterable[LabelledQuery],
        labels: Mapping[str, QueryLabels],
        counts: QrelCounts,
    ) -> Iterator[GradedQuery]:
        """Grade the tools of queries: needed ones 2, alternatives 1.

        Verified labels are used if a query has some, else its first ones, which only have needed
        tools. Queries that need no tool of the corpus are skipped.
        """
        for query in queries:
            verified = labels.get(query.id)
            grades = verified.grades if verified else dict.fromkeys(query.tools, NEEDED)
            by_id: dict[str, int] = {}
            for name, grade in grades.items():
                if found := self._ids.get(name) or self._aliases.get(name):
                    by_id[found] = max(grade, by_id.get(found, 0))
                else:
                    counts.unknown += 1
            if by_id:
                counts.requests += 1
                counts.verified += verified is not None
                counts.grades.update(by_id.values())
                yield GradedQuery(as_id(query.id), query.query, by_id)


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


def write_beir(
    folder: Path,
    tools: Iterable[Tool],
    read_queries: Callable[[Split], Iterable[LabelledQuery]],
    read_labels: Callable[[Split], Mapping[str, QueryLabels]],
    missing: Iterable[Query] = (),
) -> dict[Split, QrelCounts]:
    """Write corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv, and the same as .trec.

    Splits without queries have no files. The grades are those of `Corpus.grade`. The queries of
    `missing`, which no tool fits, are in queries.jsonl and in no qrels.
    """
    corpus, counts = Corpus(), dict[Split, QrelCounts]()
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(map(_line, corpus.rows(tools)))
    (folder / "qrels").mkdir()
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as queries:
        for split, name in BEIR_SPLITS.items():
            counts[split] = QrelCounts()
            paths = [folder / "qrels" / f"{name}{end}" for end in (".tsv", ".trec")]
            with (
                paths[0].open("w", encoding="utf-8") as beir,
                paths[1].open("w", encoding="utf-8") as trec,
            ):
                beir.write("query-id\tcorpus-id\tscore\n")
                for query in corpus.grade(
                    read_queries(split), read_labels(split), counts[split]
                ):
                    queries.write(_line({"_id": query.id, "text": query.text}))
                    for tool, grade in query.grades.items():
                        beir.write(f"{query.id}\t{tool}\t{grade}\n")
                        trec.write(f"{query.id} 0 {tool} {grade}\n")
            if not counts[split].requests:
                for path in paths:
                    path.unlink()
        for one in missing:
            queries.write(_line({"_id": as_id(one.id), "text": one.query}))
    return counts


def write_runs(hits: Path, folder: Path) -> None:
    """Write what each retriever finds for the test requests, as a TREC run named after it.

    `hits` is the folder of a run's hits. The score of a tool that has that of the one before is
    lowered to the next smaller number, so that every program keeps the order.
    """
    folder.mkdir()
    for path in sorted(hits.glob("*.jsonl")):
        names = {row["set"] for row in iterate_hits(path)}
        wanted = VERIFIED if VERIFIED in names else "test"
        tag = as_id(path.stem)
        with (folder / f"{path.stem}.trec").open("w", encoding="utf-8") as file:
            for row in iterate_hits(path):
                if row["set"] != wanted:
                    continue
                last = math.inf
                pairs = zip(row["hits"], row["scores"], strict=True)
                for rank, (tool, score) in enumerate(pairs, 1):
                    last = _lower(score, last)
                    ids = as_id(row["id"]), as_id(tool)
                    file.write(f"{ids[0]} Q0 {ids[1]} {rank} {last:.9g} {tag}\n")


def _lower(score: float, last: float) -> float:
    """The score, or the next smaller number after the last one; programs read 32 bits."""
    import numpy as np

    down = np.nextafter(np.float32(last), np.float32(-math.inf))
    return float(min(np.float32(score), down))


def _line(row: Mapping[str, str]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
