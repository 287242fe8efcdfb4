"""Every grade of a request with its source, folded into the labels of a bank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from toolbank.bank.bank import Bank, GraderKind, Label, group_labels, read_labels
from toolbank.llm.accounts import model_of
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer, number_of
from toolbank.llm.journal import Journal
from toolbank.requests.verify import CHECKS_ALONE, RECORDED, Check, VerifyConfig
from toolbank.requests.verify.candidates import (
    Finding,
    own_labels,
    read_hashed,
    write_hashed,
)
from toolbank.system.files import read_json
from toolbank.system.terminal import one_line

Graded = Mapping[str, Sequence[Label]]

_BY_CHECKS: Any = {"kind": "check", "source": "rules"}

_MENDED = {"deprecated": "deprecated", "alias": "another name of it"}


def fold_labels(
    bank: Bank, graded: Graded, findings: Sequence[Finding], config: VerifyConfig
) -> Iterator[Label]:
    """The labels of every request that has any, in the bank's order.

    What a person or a model graded counts as it is, first labels before others. Of the rest, a
    check of `set_aside` sets a request aside; a label that has a newer name makes way for it, and
    stays as an alternative.
    """
    of: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        of[finding.query].append(finding)
    for query in bank.queries:
        first = own_labels(bank, query)
        if query.id in graded:
            yield from sorted(graded[query.id], key=lambda one: _order(one, first))
            continue
        found = of[query.id]
        if bad := [one for one in found if one.check in config.set_aside]:
            reason = f"{bad[0].check}: {bad[0].tool}"
            yield Label(query=query.id, grade="aside", reason=reason, **_BY_CHECKS)
            continue
        mended = {one.tool: one for one in found if one.instead}
        if mended:
            yield from _mend(query.id, first, mended)


def _order(label: Label, first: Sequence[str]) -> tuple[bool, int]:
    place = first.index(label.tool) if label.tool in first else len(first)
    return label.grade == "alternative", place


def _mend(
    query: str, first: Sequence[str], mended: Mapping[str, Finding]
) -> Iterator[Label]:
    needed = dict.fromkeys(
        mended[name].instead if name in mended else name for name in first
    )
    for name in needed:
        yield Label(query=query, tool=name, grade="needed", **_BY_CHECKS)
    for name, finding in mended.items():
        if name not in needed:
            label = Label.alternative(
                query, name, finding.instead, _MENDED[finding.check]
            )
            yield label.model_copy(update=_BY_CHECKS)


def is_of_checks(labels: Sequence[Label]) -> bool:
    """Whether the labels of a request are those of checks, and no model graded it."""
    if labels[0].kind:
        return labels[0].kind == "check"
    reasons = tuple(f"{check}: " for check in get_args(Check))
    return any(
        label.reason in _MENDED.values()
        if label.grade == "alternative"
        else label.grade == "aside" and label.reason.startswith(reasons)
        for label in labels
    )


def find_set_aside(labels: Sequence[Label]) -> list[str]:
    """The checks by which requests are set aside in merged labels."""
    aside = (one for one in labels if one.grade == "aside" and is_of_checks([one]))
    return sorted({one.reason.partition(":")[0] for one in aside})


def measure_agreement(bank: Bank, graded: Graded) -> dict[str, Any]:
    """How grades agree with the first labels of the requests that they are of.

    Keys: `requests`, of them `aside` and `same` (just the first labels are needed); of the first
    labels of those not set aside `labels`, `confirmed` (needed), `alternative` and `refuted`;
    `added`, needed tools that were no label; and `precision` and `recall` of the first labels
    against the needed tools, None where there are none.
    """
    firsts = {q.id: own_labels(bank, q) for q in bank.queries if q.id in graded}
    return _compare(firsts, graded)


def compare_graders(graded: Graded, others: Graded) -> dict[str, Any]:
    """How grades agree with those of others, where both graded a request.

    As of `measure_agreement`, with the tools that the first graders need as first labels.
    """
    verified = group_labels(label for labels in graded.values() for label in labels)
    both = {
        query: tuple(one.needed) for query, one in verified.items() if query in others
    }
    return _compare(both, others)


def _compare(firsts: Mapping[str, Sequence[str]], graded: Graded) -> dict[str, Any]:
    verified = group_labels(label for labels in graded.values() for label in labels)
    n: Counter[str] = Counter()
    for query, labelled in firsts.items():
        n["requests"] += 1
        found = verified[query]
        if found.aside:
            n["aside"] += 1
            continue
        first, needed = set(labelled), set(found.needed)
        others = first.intersection(found.all_alternatives)
        n["same"] += first == needed
        n["labels"] += len(first)
        n["confirmed"] += len(first & needed)
        n["alternative"] += len(others)
        n["refuted"] += len(first - needed - others)
        n["added"] += len(needed - first)
    keys = ("requests", "aside", "same", "labels", "confirmed", "alternative")
    needed_in_all = n["confirmed"] + n["added"]
    return {
        **{key: n[key] for key in (*keys, "refuted", "added")},
        "precision": n["confirmed"] / n["labels"] if n["labels"] else None,
        "recall": n["confirmed"] / needed_in_all if needed_in_all else None,
    }


_EXCERPT = 100
_REASON = 400
NOTHING = "none of the candidates is needed"


def read_grades(
    reply: ChatReply, query: str, candidates: Collection[str]
) -> tuple[Label, ...] | Rejection:
    """The labels of a request, by its id, or why the reply gives none.

    Rejected, beside what `check_finish` and `find_answer` say, as `wrong-schema`, `not-offered` (a
    tool that is no candidate), `graded-twice`, or `stands-for-nothing` (an alternative to a tool
    that is not needed). A request that is set aside, or for which nothing is needed, has one
    label. Nothing that a reply can hold raises.
    """
    answer = check_finish(reply) or find_answer(reply.text, ["needed", "aside"])
    if isinstance(answer, Rejection):
        return answer
    aside = answer.get("aside") or ""
    if not isinstance(aside, str):
        return Rejection("wrong-schema", f"aside is {one_line(str(aside), _EXCERPT)}")
    needed, others = answer.get("needed") or [], answer.get("alternatives") or []
    labels: list[Label] = []
    for rows, grade in ((needed, "needed"), (others, "alternative")):
        if not isinstance(rows, list):
            return Rejection("wrong-schema", one_line(str(rows), _EXCERPT))
        for row in rows:
            label = _read(row, grade, query, candidates)
            if isinstance(label, Rejection):
                return label
            labels.append(label)
    if said := one_line(aside, _REASON):
        return (Label(query=query, grade="aside", reason=said),)
    graded = [label.tool for label in labels]
    if twice := [tool for tool in graded if graded.count(tool) > 1]:
        return Rejection("graded-twice", twice[0])
    wanted = {label.tool for label in labels if label.grade == "needed"}
    for label in labels:
        if label.grade == "alternative" and label.stands_for not in wanted:
            return Rejection(
                "stands-for-nothing",
                f"{label.tool} for {one_line(label.stands_for, _EXCERPT)}",
            )
    return tuple(labels) or (Label(query=query, grade="aside", reason=NOTHING),)


def _read(
    row: object, grade: str, query: str, candidates: Collection[str]
) -> Label | Rejection:
    if not isinstance(row, Mapping) or not isinstance(row.get("tool"), str):
        return Rejection("wrong-schema", one_line(str(row), _EXCERPT))
    if row["tool"] not in candidates:
        return Rejection("not-offered", one_line(row["tool"], _EXCERPT))
    reason = one_line(str(row.get("why") or ""), _REASON)
    if grade == "needed":
        return Label(query=query, tool=row["tool"], grade="needed", reason=reason)
    stands_for = str(row.get("for") or "")
    return Label.alternative(query, row["tool"], stands_for, reason)


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
class EffectiveGradings:
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


def choose_gradings(bank: Bank, gradings: Iterable[Grading]) -> EffectiveGradings:
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
    return EffectiveGradings(chosen, dict(sorted(unused.items())))


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
