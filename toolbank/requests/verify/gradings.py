"""Store every grade of a request with its source, and fold the grades into a bank's labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, get_args

from toolbank.bank.bank import Bank, GraderKind, Label, read_labels
from toolbank.bank.records import Query
from toolbank.llm.accounts import model_of
from toolbank.llm.chat import (
    ChatReply,
    Rejection,
    check_finish,
    find_answer,
    number_from_text,
)
from toolbank.llm.journal import Journal
from toolbank.requests.verify import CHECKS_ALONE, RECORDED, Check
from toolbank.requests.verify.candidates import Finding, read_hashed, write_hashed
from toolbank.requests.verify.directions import own_labels
from toolbank.system.files import read_json
from toolbank.system.terminal import one_line

Graded = Mapping[str, Sequence[Label]]

NO_GRADE = "no"
"""The grade of a tool that is neither needed nor an alternative."""

_BY_CHECKS: Any = {"kind": "check", "source": "rules"}

_REPLACED = {"deprecated": "deprecated", "alias": "another name of it"}


def fold_labels(
    bank: Bank, graded: Graded, findings: Sequence[Finding], set_aside: Collection[str]
) -> Iterator[Label]:
    """Fold grades and findings into the labels of a bank, in its order.

    Grades of a person or a model count unchanged, first labels before others. Of the other
    requests, a check of `set_aside` excludes a request, and a label with a newer name is replaced
    by it and becomes an alternative.
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
        if bad := [one for one in found if one.check in set_aside]:
            reason = f"{bad[0].check}: {bad[0].tool}"
            yield Label(query=query.id, grade="aside", reason=reason, **_BY_CHECKS)
            continue
        replaced = {one.tool: one for one in found if one.instead}
        if replaced:
            yield from _replace(query.id, first, replaced)


def _order(label: Label, first: Sequence[str]) -> tuple[bool, int]:
    place = first.index(label.tool) if label.tool in first else len(first)
    return label.grade == "alternative", place


def _replace(
    query: str, first: Sequence[str], replaced: Mapping[str, Finding]
) -> Iterator[Label]:
    needed = dict.fromkeys(
        replaced[name].instead if name in replaced else name for name in first
    )
    for name in needed:
        yield Label(query=query, tool=name, grade="needed", **_BY_CHECKS)
    for name, finding in replaced.items():
        if name not in needed:
            label = Label.alternative(
                query, name, finding.instead, _REPLACED[finding.check]
            )
            yield label.model_copy(update=_BY_CHECKS)


def read_tools(labels: Iterable[Label]) -> dict[str, str]:
    """Read the grades of a request by tool; a tool that is missing has none."""
    return {label.tool: label.grade for label in labels if label.tool}


def is_of_checks(labels: Sequence[Label]) -> bool:
    """Return whether the labels of a request are from checks, not from a person or model."""
    if labels[0].kind:
        return labels[0].kind == "check"
    reasons = tuple(f"{check}: " for check in get_args(Check))
    return any(
        label.reason in _REPLACED.values()
        if label.grade == "alternative"
        else label.grade == "aside" and label.reason.startswith(reasons)
        for label in labels
    )


def find_set_aside(labels: Sequence[Label]) -> list[str]:
    """Find the checks that excluded requests in merged labels."""
    aside = (one for one in labels if one.grade == "aside" and is_of_checks([one]))
    return sorted({one.reason.partition(":")[0] for one in aside})


_EXCERPT = 100
_REASON = 400
NOTHING = "none of the candidates is needed"


def read_grades(
    reply: ChatReply, query: str, candidates: Collection[str]
) -> tuple[tuple[Label, ...], list[Rejection]] | Rejection:
    """Read the labels of a request, by its id, or why the reply has none.

    Rejected as `check_finish` and `find_answer` do, and as `wrong-schema`, `not-offered` (a tool
    that is no candidate) or `graded-twice`. An excluded request, and one that needs no candidate,
    has one label. An alternative that is no candidate or is graded already, or whose needed tool is
    not needed (`stands-for-nothing`), is dropped alone. No reply raises an error.

    Returns:
        The labels, and why alternatives were dropped.
    """
    answer = check_finish(reply) or find_answer(reply.text, ["needed", "aside"])
    if isinstance(answer, Rejection):
        return answer
    aside = answer.get("aside") or ""
    if not isinstance(aside, str):
        return Rejection("wrong-schema", f"aside is {one_line(str(aside), _EXCERPT)}")
    labels: dict[str, Label] = {}
    for row in _rows(answer.get("needed")):
        label = _read(row, "needed", query, candidates)
        if isinstance(label, Rejection):
            return label
        if label.tool in labels:
            return Rejection("graded-twice", label.tool)
        labels[label.tool] = label
    if said := one_line(aside, _REASON):
        return (Label(query=query, grade="aside", reason=said),), []
    wanted = frozenset(labels)
    dropped: list[Rejection] = []
    for row in _rows(answer.get("alternatives")):
        label = _read(row, "alternative", query, candidates)
        if isinstance(label, Label) and label.tool in labels:
            label = Rejection("graded-twice", label.tool)
        if isinstance(label, Label) and label.stands_for not in wanted:
            named = one_line(label.stands_for, _EXCERPT)
            label = Rejection("stands-for-nothing", f"{label.tool} for {named}")
        if isinstance(label, Rejection):
            dropped.append(label)
        else:
            labels[label.tool] = label
    return tuple(labels.values()) or (
        Label(query=query, grade="aside", reason=NOTHING),
    ), dropped


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if value else []


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
_ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt")

_given = attrgetter("given")
_key = attrgetter("query", "text", "kind", "source", "candidates", "given")
_RANKS = {kind: rank for rank, kind in enumerate(get_args(GraderKind))}
_ADVICE = (
    "Put it back as it was. Or delete it: the grades of models come back from the journal when "
    "`toolbank verify` runs again, and those of people from their files."
)


class GradeRow(Label):
    """One label of a grading in grades.parquet.

    `text` is the graded request, `candidates` the key of the candidates that were shown. The latest
    grading of a request by one kind of grader has the highest `given`.
    """

    text: str
    candidates: str = ""
    given: int


@dataclass(frozen=True)
class Grading:
    """The labels that one source gave to one request, and the graded text."""

    query: str
    text: str
    kind: GraderKind
    source: str
    labels: tuple[Label, ...]
    candidates: str = ""
    given: int = 0

    @property
    def subject(self) -> tuple[str, str, str]:
        """The request and the kind of source, for which gradings compete."""
        return self.query, self.text, self.kind

    @property
    def rank(self) -> tuple[int, int]:
        """Rank people over models over checks, then the latest."""
        return _RANKS[self.kind], self.given

    @property
    def aside(self) -> bool:
        """Whether the request is set aside."""
        return any(label.grade == "aside" for label in self.labels)

    @property
    def tools(self) -> Iterator[str]:
        """The tools that the labels name."""
        for label in self.labels:
            yield from filter(None, (label.tool, label.stands_for))

    def is_same(self, other: Grading) -> bool:
        """Return whether two gradings are the same apart from when they were given.

        A person's file has no candidates.
        """
        ignored: dict[str, Any] = {"given": 0}
        if self.kind == "person":
            ignored["candidates"] = ""
        return replace(self, **ignored) == replace(other, **ignored)


@dataclass(frozen=True)
class EffectiveGradings:
    """The labels that count for each request, by its id.

    `used` counts for each kind and source the requests with a label of that kind that it agrees
    with. `open` lists the grades that stay undecided, because the graders of a kind have no majority
    and no kind above them decides: `query`, `tool` ("" for the whole request), `kind`, and `votes`,
    the grade by source. `unused` counts the stored gradings that do not apply to the bank, by reason.
    """

    of: Mapping[str, tuple[Label, ...]]
    used: Counter[tuple[GraderKind, str]]
    open: Sequence[dict[str, Any]]
    unused: Mapping[str, int]


def make_grading(
    query: str,
    text: str,
    kind: GraderKind,
    source: str,
    labels: Iterable[Label],
    candidates: str = "",
) -> Grading:
    """Make a grading whose labels name its source; a person has the name of a file without its ending."""
    source = _name_person(source) if kind == "person" else source
    named = (one.model_copy(update={"kind": kind, "source": source}) for one in labels)
    return Grading(query, text, kind, source, tuple(named), candidates)


def _name_person(source: str) -> str:
    # Earlier versions stored the name of the file.
    path = PurePath(source)
    return path.stem if path.suffix.lower() in _ENDINGS else source


def add_gradings(stored: Iterable[Grading], new: Iterable[Grading]) -> list[Grading]:
    """Add new gradings to the stored ones, as the latest of their kind.

    None is removed. A repeated grading is stored once and becomes the latest, except a person's
    without another one since, because every run reads the file again. The order of gradings with
    different subjects makes no difference.
    """
    of: dict[tuple[str, str, str], list[Grading]] = {}
    for one in stored:
        of.setdefault(one.subject, []).append(one)
    for one in new:
        rivals = of.setdefault(one.subject, [])
        own = [other for other in rivals if other.source == one.source]
        last = max(own if one.kind == "person" else rivals, key=_given, default=None)
        if last is not None and one.is_same(last):
            continue
        kept = [other for other in rivals if not one.is_same(other)]
        given = 1 + max(map(_given, rivals), default=0)
        of[one.subject] = [*kept, replace(one, given=given)]
    return sorted(
        (one for rivals in of.values() for one in rivals),
        key=lambda one: (*one.subject, one.given),
    )


def choose_gradings(
    bank: Bank, gradings: Iterable[Grading], panel: Sequence[str] = ()
) -> EffectiveGradings:
    """Choose the labels of each request: people over models over checks.

    Of several people, the last grading of each counts, and their majority decides; where they have
    none, the model's grade stays, or else the first labels. Of models, those of `panel` decide in the
    same way, and where they have no majority the first of them; without them the latest model does.
    A grading applies if the bank has the request with the same text, and all its tools.
    """
    applying, unused = _find_applying(bank, gradings)
    firsts = {query.id: own_labels(bank, query) for query in bank.queries}
    of: dict[str, tuple[Label, ...]] = {}
    used: Counter[tuple[GraderKind, str]] = Counter()
    open_rows: list[dict[str, Any]] = []
    for query, found in applying.items():
        labels, voted = None, []
        undecided: list[dict[str, Any]] = []
        for kind, of_kind in groupby(_last_of_each(found), key=lambda one: one.kind):
            votes = list(of_kind)
            if kind == "model":
                asked = [one for name in panel for one in votes if one.source == name]
                votes = asked or votes[-1:]
                labels = votes[0].labels
            elif kind != "person":
                votes = votes[-1:]
            voted += votes
            labels, rows = _decide(votes, labels, query, firsts[query])
            left = {row["tool"] for row in rows}
            stays = (r for r in undecided if "" in left and r["tool"] not in left)
            undecided = [*stays, *rows]
        open_rows += undecided
        if labels is not None:
            of[query] = labels
            grades = {(one.kind, one.tool, one.grade) for one in labels}
            used.update(
                (one.kind, one.source)
                for one in voted
                if any((x.kind, x.tool, x.grade) in grades for x in one.labels)
            )
    return EffectiveGradings(of, used, open_rows, dict(sorted(unused.items())))


def _find_applying(
    bank: Bank, gradings: Iterable[Grading]
) -> tuple[dict[str, list[Grading]], Counter[str]]:
    """Find the gradings that apply to the bank by request, and count the others by reason."""
    texts = {query.id: query.query for query in bank.queries}
    applying: dict[str, list[Grading]] = {}
    unused: Counter[str] = Counter()
    for one in gradings:
        if one.query not in texts:
            unused["the request is gone"] += 1
        elif texts[one.query] != one.text:
            unused["the request has another text"] += 1
        elif not {*one.tools} <= bank.index.keys():
            unused["a tool is gone"] += 1
        else:
            applying.setdefault(one.query, []).append(one)
    return applying, unused


def _last_of_each(found: Iterable[Grading]) -> list[Grading]:
    """The last grading of each source, the latest at the end."""
    last: dict[tuple[str, str], Grading] = {}
    for one in sorted(found, key=lambda one: one.rank):
        last[one.kind, one.source] = one
    return sorted(last.values(), key=lambda one: one.rank)


def _decide(
    votes: Sequence[Grading],
    before: tuple[Label, ...] | None,
    query: str,
    first: Sequence[str],
) -> tuple[tuple[Label, ...] | None, list[dict[str, Any]]]:
    """Decide the labels of a request by majority, and list what is open.

    `before` are the labels that stay where there is no majority, or else the `first` ones.
    """
    graders = [one for one in votes if not one.aside]
    if len(votes) == 1 or not graders:
        return votes[0].labels, []
    make = partial(_open_row, query, votes)
    if 2 * len(graders) < len(votes):
        return next(one for one in votes if one.aside).labels, []
    if 2 * len(graders) == len(votes):
        return before, [make("")]
    base = before or tuple(Label(query=query, tool=t, grade="needed") for t in first)
    stays = {label.tool: label for label in base}
    chosen: list[Label | None] = []
    open_tools: list[str] = []
    given = [{label.tool: label for label in one.labels} for one in graders]
    for tool in dict.fromkeys(chain(*given)):
        said = [one.get(tool) for one in given]
        grade, n = Counter(one and one.grade for one in said).most_common(1)[0]
        if 2 * n <= len(graders):
            open_tools.append(tool)
            chosen.append(stays.get(tool))
        else:
            chosen += [one for one in said if one and one.grade == grade]
    labels = [one for one in chosen if one]
    needed: dict[str, Label] = {}
    for one in labels:
        if one.grade == "needed":
            needed.setdefault(one.tool, one)
    if not needed:
        # Each needs a tool of its own, which the others refuse.
        return before, [make("")]
    others = [
        one for one in labels if one.stands_for in needed and one.tool not in needed
    ]
    times = Counter((one.tool, one.stands_for) for one in others)
    alternatives: dict[str, Label] = {}
    for one in sorted(others, key=lambda one: -times[one.tool, one.stands_for]):
        alternatives.setdefault(one.tool, one)
    lost = [one.tool for one in labels if one.tool not in {**needed, **alternatives}]
    open_rows = [make(tool) for tool in dict.fromkeys([*open_tools, *lost])]
    return (*needed.values(), *alternatives.values()), open_rows


def _open_row(query: str, votes: Sequence[Grading], tool: str) -> dict[str, Any]:
    said = {
        one.source: "aside"
        if one.aside
        else read_tools(one.labels).get(tool, NO_GRADE)
        if tool
        else ", ".join(label.tool for label in one.labels if label.grade == "needed")
        for one in votes
    }
    return {"query": query, "tool": tool, "kind": votes[0].kind, "votes": said}


def last_of_sources(
    bank: Bank, gradings: Sequence[Grading]
) -> dict[tuple[GraderKind, str], dict[str, Grading]]:
    """Find for each person and model the last grading of each request that applies, people first."""
    applying, _ = _find_applying(bank, gradings)
    found: dict[tuple[GraderKind, str], dict[str, Grading]] = {}
    for query, ones in applying.items():
        for one in (one for one in _last_of_each(ones) if one.kind != "check"):
            found.setdefault((one.kind, one.source), {})[query] = one
    return dict(sorted(found.items(), key=lambda row: (-_RANKS[row[0][0]], row[0][1])))


def read_gradings(path: Path) -> list[Grading]:
    """Read a grades.parquet; no gradings if it is missing.

    Raises:
        InputError: the file is damaged or was changed.
    """
    rows = groupby(read_hashed(path, GradeRow, _ADVICE), key=_key)
    return [
        replace(
            make_grading(query, text, kind, source, map(_make_label, of), candidates),
            given=given,
        )
        for (query, text, kind, source, candidates, given), of in rows
    ]


def _make_label(row: GradeRow) -> Label:
    content = {name: getattr(row, name) for name in Label.model_fields}
    return Label.model_validate(content)


def write_gradings(path: Path, gradings: Iterable[Grading]) -> None:
    """Write a grades.parquet atomically; the same gradings give the same bytes."""
    rows = (
        GradeRow(
            **dict(label), text=one.text, candidates=one.candidates, given=one.given
        )
        for one in gradings
        for label in one.labels
    )
    write_hashed(path, GradeRow, rows)


def read_earlier_gradings(
    labels: Path, verified: Path, journal: Path, models: Collection[str]
) -> tuple[list[Grading], list[str]]:
    """Read the gradings of a run of version 0.7.0, which stored only the labels of the last `verify`.

    Gradings of labels.parquet, whose source is in verify.json, follow those of the journal. That
    version did not store who graded a file: files named in `models` count as a model's, the others
    as a person's. The names of the others are returned, too.

    Raises:
        InputError: a file is damaged.
        ToolbankError: the journal is damaged.
    """
    info = read_json(verified)
    bank = replace(Bank.load(labels.parent), labels=())
    people: set[str] = set()

    def find_kind(source: str, *, is_file: bool) -> GraderKind:
        if not is_file or source in models:
            return "model"
        people.add(source)
        return "person"

    found: list[Grading] = []
    if journal.is_file():
        with Journal(journal, read_only=True) as opened:
            for query, identity, source, graded in _read_replies(opened, bank):
                kind = find_kind(source, is_file=identity.startswith(f"{RECORDED} "))
                found.append(make_grading(query.id, query.query, kind, source, graded))
    found = add_gradings((), found)
    if info.get("engine") != CHECKS_ALONE or info.get("graders"):
        source = str(info.get("model") or info.get("engine") or "model")
        kind = find_kind(source, is_file=info.get("engine") == RECORDED)
        last = grade_by_labels(read_labels(labels), bank, kind, source)
        found = add_gradings(found, (one for one in last if one.kind != "check"))
    return found, sorted(people)


def _read_replies(
    journal: Journal, bank: Bank
) -> Iterator[tuple[Query, str, str, tuple[Label, ...]]]:
    """Read the grades in a journal, with the identities and names of their graders, in their order."""
    order = [one.identity for one in journal.usage() if one.step == _STEP]
    for query in bank.queries if order else ():
        entries = journal.entries(number_from_text(query.query))
        of = [entry for entry in entries if entry.step == _STEP]
        for entry in sorted(of, key=lambda one: order.index(one.identity)):
            graded = read_grades(entry.reply, query.id, bank.index.keys())
            if not isinstance(graded, Rejection):
                source = model_of(entry.identity, entry.reply.model)
                yield query, entry.identity, source, graded[0]


def grade_by_labels(
    labels: Iterable[Label], bank: Bank, kind: GraderKind, source: str
) -> Iterator[Grading]:
    """Make a grading of the labels of each request; those that name no grader have this one."""
    texts = {query.id: query.query for query in bank.queries}
    of: dict[str, list[Label]] = {}
    for label in labels:
        if label.query in texts:
            of.setdefault(label.query, []).append(label)
    for query, rows in of.items():
        by: tuple[GraderKind, str] = rows[0].kind or kind, rows[0].source or source
        if not rows[0].kind and is_of_checks(rows):
            by = "check", "rules"
        yield make_grading(query, texts[query], *by, rows)
