"""Every grade that people and models gave to the requests of a run, and which of them count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from toolbank.bank.bank import Bank, GraderKind, Label, read_labels
from toolbank.llm.accounts import model_of
from toolbank.llm.chat import Rejection, number_of
from toolbank.llm.journal import Journal
from toolbank.system.files import read_json
from toolbank.verify.candidates import read_hashed, write_hashed
from toolbank.verify.engine import CHECKS_ALONE, RECORDED
from toolbank.verify.fold import is_of_checks
from toolbank.verify.replies import read_grades

GRADES = "grades.parquet"

_STEP = "verify"

_RANKS = {kind: rank for rank, kind in enumerate(get_args(GraderKind))}
_ADVICE = (
    "Put it back as it was. Or delete it: the grades of models come back from the journal when "
    "`toolbank verify` runs again, and those of people from their files."
)


class GradeRow(Label):
    """One label of a grading, as grades.parquet has it.

    `text` is the request that was graded, `candidates` the key of the candidates that were shown.
    Of gradings of one kind for one request, that with the highest `given` was given last.
    """

    text: str
    candidates: str = ""
    given: int


@dataclass(frozen=True)
class Grading:
    """What one source says of one request: its labels, and for which text it said so."""

    query: str
    text: str
    kind: GraderKind
    source: str
    labels: tuple[Label, ...]
    candidates: str = ""
    given: int = 0

    @property
    def subject(self) -> tuple[str, str, str]:
        """What it competes for: one request, as graded by one kind of source."""
        return self.query, self.text, self.kind

    def is_same(self, other: Grading) -> bool:
        """Whether it says the same as another, whenever that was given.

        A person's file says nothing of candidates.
        """
        ignored: dict[str, Any] = {"given": 0}
        if self.kind == "person":
            ignored["candidates"] = ""
        return replace(self, **ignored) == replace(other, **ignored)


@dataclass(frozen=True)
class Chosen:
    """The grading that counts for each request, by its id, and those that apply to none.

    `unused` counts stored gradings by the reason why they don't apply to the bank as it is.
    """

    of: Mapping[str, Grading]
    unused: Mapping[str, int]


def make_grading(
    query: str,
    text: str,
    kind: GraderKind,
    source: str,
    labels: Iterable[Label],
    candidates: str = "",
) -> Grading:
    """A grading whose labels name its source."""
    named = (one.model_copy(update={"kind": kind, "source": source}) for one in labels)
    return Grading(query, text, kind, source, tuple(named), candidates)


def add_gradings(stored: Iterable[Grading], new: Iterable[Grading]) -> list[Grading]:
    """The stored gradings with the new ones, which become the last given of their kind.

    None is removed. What was given before, and is given again, is stored once. It becomes the last
    given again, but for a person who has said nothing else since: every run reads the file again,
    and that changes nothing. The order of gradings with different subjects makes no difference.
    """
    of: dict[tuple[str, str, str], list[Grading]] = {}
    for one in stored:
        of.setdefault(one.subject, []).append(one)
    for one in new:
        rivals = of.setdefault(one.subject, [])
        own = [other for other in rivals if other.source == one.source]
        last = _find_last(own if one.kind == "person" else rivals)
        if last is not None and one.is_same(last):
            continue
        kept = [other for other in rivals if not one.is_same(other)]
        before = _find_last(rivals)
        given = before.given + 1 if before else 1
        of[one.subject] = [*kept, replace(one, given=given)]
    return sorted(
        (one for rivals in of.values() for one in rivals),
        key=lambda one: (*one.subject, one.given),
    )


def choose_gradings(bank: Bank, gradings: Iterable[Grading]) -> Chosen:
    """Choose for each request: people over models over checks, and of one kind the last given.

    A grading applies if the bank has the request with the same text, and all tools that it names.
    """
    texts = {query.id: query.query for query in bank.queries}
    chosen: dict[str, Grading] = {}
    unused: Counter[str] = Counter()
    for one in gradings:
        if one.query not in texts:
            unused["the request is gone"] += 1
        elif texts[one.query] != one.text:
            unused["the request has another text"] += 1
        elif not all(_named(label) <= bank.index.keys() for label in one.labels):
            unused["a tool is gone"] += 1
        else:
            rival = chosen.get(one.query)
            if rival is None or _rank(one) > _rank(rival):
                chosen[one.query] = one
    return Chosen(chosen, dict(sorted(unused.items())))


def last_of_sources(
    bank: Bank, gradings: Sequence[Grading]
) -> dict[tuple[GraderKind, str], dict[str, Grading]]:
    """By kind and source, the last grading of each request that applies; people come first."""
    sources = {(one.kind, one.source) for one in gradings}
    found = {}
    for kind, source in sorted(sources, key=lambda one: (-_RANKS[one[0]], one[1])):
        own = [one for one in gradings if (one.kind, one.source) == (kind, source)]
        found[kind, source] = dict(choose_gradings(bank, own).of)
    return found


def read_gradings(path: Path) -> list[Grading]:
    """Read a grades.parquet; a run without one has none.

    Raises:
        InputError: the file is damaged, or not as it was written.
    """
    rows = groupby(read_hashed(path, GradeRow, _ADVICE), key=_key)
    return [
        Grading(query, text, kind, source, tuple(map(_strip, group)), candidates, given)
        for (query, text, kind, source, candidates, given), group in rows
    ]


def write_gradings(path: Path, gradings: Iterable[Grading]) -> None:
    """Write a grades.parquet, atomically; same gradings, same bytes."""
    write_hashed(path, GradeRow, _make_rows(gradings))


def read_earlier_gradings(
    labels: Path, verified: Path, journal: Path, models: Collection[str]
) -> tuple[list[Grading], list[str]]:
    """The gradings of a run of version 0.7.0, which stored the labels of the last `verify` alone.

    Those of labels.parquet, whose source is in verify.json, come after those that the journal
    still has. That version did not store whether a person or a model gave the grades of a file:
    files named in `models` are a model's, the others a person's. Gives the names of the others, too.

    Raises:
        InputError: a file is damaged.
        ToolbankError: the journal is damaged.
    """
    info = read_json(verified)
    has_labels = info.get("engine") != CHECKS_ALONE or bool(info.get("graders"))
    order: list[str] = []
    if journal.is_file():
        with Journal(journal, read_only=True) as opened:
            order = [one.identity for one in opened.usage() if one.step == _STEP]
    if not (has_labels or order):
        return [], []
    bank = replace(Bank.load(labels.parent), labels=())
    found: list[Grading] = []
    files: set[str] = set()
    if order:
        with Journal(journal, read_only=True) as opened:
            found, files = _read_replies(opened, bank, order)
    found = add_gradings((), found)
    if has_labels:
        source = str(info.get("model") or info.get("engine") or "model")
        files |= {source} if info.get("engine") == RECORDED else set()
        last = _grade_by_labels(read_labels(labels), bank, "model", source)
        found = add_gradings(found, last)
    return (
        [_by_person(one) if one.source in files - {*models} else one for one in found],
        sorted(files - {*models}),
    )


def _by_person(one: Grading) -> Grading:
    labels = tuple(label.model_copy(update={"kind": "person"}) for label in one.labels)
    return replace(one, kind="person", labels=labels)


def _read_replies(
    journal: Journal, bank: Bank, order: Sequence[str]
) -> tuple[list[Grading], set[str]]:
    """The gradings in the replies of a journal, in the order in which their graders began.

    Gives the names of files of grades, too.
    """
    found = []
    files = set()
    for query in bank.queries:
        of = [
            one for one in journal.entries(number_of(query.query)) if one.step == _STEP
        ]
        for entry in sorted(of, key=lambda one: order.index(one.identity)):
            labels = read_grades(entry.reply, query.id, bank.index.keys())
            if isinstance(labels, Rejection):
                continue
            source = model_of(entry.identity, entry.reply.model)
            if entry.identity.startswith(f"{RECORDED} "):
                files.add(source)
            found.append(make_grading(query.id, query.query, "model", source, labels))
    return found, files


def grade_by_dataset(labels: Iterable[Label], bank: Bank) -> list[Grading]:
    """The labels of a dataset as gradings, of the sources that they name."""
    found = _grade_by_labels(labels, bank, "model", "dataset", checks=True)
    return [one for one in found if one.labels]


def _grade_by_labels(
    labels: Iterable[Label],
    bank: Bank,
    kind: GraderKind,
    source: str,
    *,
    checks: bool = False,
) -> list[Grading]:
    """A grading a request; labels of earlier versions, which name no source, are of this one."""
    texts = {query.id: query.query for query in bank.queries}
    of: dict[str, list[Label]] = {}
    for label in labels:
        of.setdefault(label.query, []).append(label)
    found = []
    for query, rows in of.items():
        named, own = rows[0].kind or kind, rows[0].source or source
        if not rows[0].kind and is_of_checks(rows):
            named, own = "check", "rules"
        if query in texts and (checks or named != "check"):
            found.append(make_grading(query, texts[query], named, own, rows))
    return found


def _find_last(gradings: Iterable[Grading]) -> Grading | None:
    return max(gradings, key=lambda one: one.given, default=None)


def _rank(one: Grading) -> tuple[int, int]:
    return _RANKS[one.kind], one.given


def _named(label: Label) -> set[str]:
    return {label.tool, label.stands_for} - {""}


def _key(row: GradeRow) -> tuple[str, str, GraderKind, str, str, int]:
    return row.query, row.text, row.kind, row.source, row.candidates, row.given


def _strip(row: GradeRow) -> Label:
    return Label.model_validate(
        {name: getattr(row, name) for name in Label.model_fields}
    )


def _make_rows(gradings: Iterable[Grading]) -> Iterator[GradeRow]:
    for one in gradings:
        for label in one.labels:
            yield GradeRow.model_validate(
                {
                    **dict(label),
                    "text": one.text,
                    "candidates": one.candidates,
                    "given": one.given,
                }
            )
