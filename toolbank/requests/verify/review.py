"""Choose what people review, and make grades of their judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from toolbank.bank.bank import ALTERNATIVE, NEEDED, Bank, Label, QueryLabels
from toolbank.bank.split import sample_queries
from toolbank.requests.verify.candidates import Candidate, read_candidates
from toolbank.requests.verify.directions import own_labels
from toolbank.requests.verify.gradings import NO_GRADE, NOTHING, Grading, make_grading
from toolbank.requests.verify.review_forms import (
    JUDGEMENTS,
    TABLES,
    SheetAnswer,
    SheetRow,
    read_sheet,
)
from toolbank.system.errors import InputError

_GRADES = {0: NO_GRADE, ALTERNATIVE: "alternative", NEEDED: "needed"}


def make_sheet(
    bank: Bank, candidates: Path, n: int, seed: int, *, blind: bool
) -> list[SheetRow]:
    """Make the rows of a sample of n requests, in proportion to splits and numbers of tools.

    Each request has its candidates of all calls, its labels included: needed tools first, then
    alternatives; blind, without grades and in random order.

    Raises:
        InputError: there are no candidates, or their file is damaged.
    """
    pooled = _read_current(candidates)
    every = (*bank.queries, *bank.missing)
    queries = sample_queries([q for q in every if q.id in pooled], n, seed)
    if not queries:
        raise InputError(
            f"{candidates}: no candidates of these requests. Run `toolbank verify RUN` first."
        )
    rows = []
    for query in queries:
        now = bank.verified.get(query.id) or QueryLabels([*own_labels(bank, query)])
        stand = {n: tool for tool, names in now.alternatives.items() for n in names}
        candidates_now = [row.tool for row in pooled[query.id]]
        tools = dict.fromkeys((*now.needed, *stand, *candidates_now))
        names = [name for name in tools if name in bank.index]
        if blind:
            Random(f"{seed}:review:{query.id}").shuffle(names)
        for name in names:
            summary = bank.tools[bank.index[name]].summary
            grade = _GRADES[now.grades.get(name, 0)] if not now.aside else "aside"
            shown = ("", "") if blind else (grade, stand.get(name, ""))
            rows.append(SheetRow(query.id, query.query, name, summary, *shown))
    return rows


def _read_current(path: Path) -> dict[str, list[Candidate]]:
    """Read the present candidates of each request; those of earlier keys come later in the file."""
    current: dict[str, list[Candidate]] = {}
    for row in read_candidates(path):
        rows = current.setdefault(row.query, [])
        if not rows or rows[0].key == row.key:
            rows.append(row)
    return current


def read_reviews(
    paths: Iterable[Path], bank: Bank, candidates: Path
) -> tuple[list[Grading], list[tuple[str, str]]]:
    """Read the grades of sheets, and which requests, by person and id, are begun and do not count yet.

    In a table, a request is judged if a tool is needed, if it is set aside, or if each tool has a
    judgement; blanks then mean `no`. In the other forms each tool needs a judgement, unless the
    request is set aside.

    Raises:
        InputError: a file or a judgement is wrong; the message says where, and what to do.
    """
    pooled = _read_current(candidates)
    texts = {query.id: query.query for query in (*bank.queries, *bank.missing)}
    gradings, unfinished = [], []
    seen: dict[tuple[str, str], Path] = {}
    for path in paths:
        of: dict[tuple[str, str], list[SheetAnswer]] = {}
        for row in read_sheet(path):
            _check(row, bank, texts)
            of.setdefault((row.person, row.request_id), []).append(row)
        for (person, query), rows in of.items():
            judged = [row for row in rows if row.judgement]
            if not judged:
                continue
            if seen.setdefault((person, query), path) is not path:
                raise InputError(
                    f"{rows[0].place}: {person} has judged {query} in {seen[person, query]}, too. "
                    "Give one of the files, or another name in the column annotator."
                )
            enough = {"aside"}
            if path.suffix in TABLES:
                enough.add("needed")
            own = pooled.get(query, [])
            tools = {bank.index.get(row.tool) for row in judged}
            is_whole = all(bank.index.get(row.tool) in {*tools, None} for row in own)
            if is_whole or any(row.judgement in enough for row in judged):
                key = own[0].key if own else ""
                labels = _label(judged, bank, query)
                gradings.append(
                    make_grading(query, texts[query], "person", person, labels, key)
                )
            else:
                unfinished.append((person, query))
    return gradings, unfinished


def _check(row: SheetAnswer, bank: Bank, texts: Mapping[str, str]) -> None:
    """Refuse a judgement that can't be used, at its place.

    Raises:
        InputError: what is wrong, and what to do.
    """
    text, judgement = texts.get(row.request_id), row.judgement
    is_alternative = judgement == "alternative"
    checks = (
        (
            text is not None,
            f"no request of this bank has the id {row.request_id!r}. Give the sheet's own run",
        ),
        (
            not row.request or row.request.split() == (text or "").split(),
            f"{row.request_id} has another text in this bank. Export the sheet again, and judge the "
            "present text",
        ),
        (
            row.tool in bank.index or (not row.tool and judgement in ("", "aside")),
            f"no tool of this bank is named {row.tool!r}. Use a name of the catalogue",
        ),
        (
            judgement in ("", *JUDGEMENTS),
            f"judgement {judgement!r}. Write one of {', '.join(JUDGEMENTS)}, or nothing",
        ),
        (
            row.alternative_for or not is_alternative,
            "an alternative to what? Write the needed tool's name under alternative_for",
        ),
        (
            is_alternative or not row.alternative_for,
            "alternative_for is filled in, so that judgement should be `alternative`",
        ),
    )
    for is_right, wrong in checks:
        if not is_right:
            raise InputError(f"{row.place}: {wrong}. Nothing was changed.")


def _label(rows: Sequence[SheetAnswer], bank: Bank, query: str) -> Iterator[Label]:
    """The labels of a request that one person has judged.

    Raises:
        InputError: judgements contradict each other.
    """
    said: dict[str, SheetAnswer] = {}
    for row in rows:
        name = bank.tools[bank.index[row.tool]].name if row.tool else ""
        other = said.setdefault(name, row)
        if other.judgement != row.judgement:
            raise InputError(
                f"{row.place}: {row.tool} is `{other.judgement}` at {other.place}. Keep one of them."
            )
    of = {one: [x for x in said.items() if x[1].judgement == one] for one in JUDGEMENTS}
    needed = dict(of["needed"])
    aside = [row for _, row in of["aside"]]
    if aside and needed:
        raise InputError(
            f"{next(iter(needed.values())).place}: needed, and the request is set aside at "
            f"{aside[0].place}. Keep one of them."
        )
    for name, row in needed.items():
        yield Label(query=query, tool=name, grade="needed", reason=row.note)
    for name, row in () if aside else of["alternative"]:
        place = bank.index.get(row.alternative_for)
        stands_for = "" if place is None else bank.tools[place].name
        if stands_for not in needed:
            raise InputError(
                f"{row.place}: an alternative to {row.alternative_for!r}, which is not judged as "
                "needed. Judge that tool as needed, or correct alternative_for."
            )
        yield Label.alternative(query, name, stands_for, row.note)
    if not needed:
        reasons = "; ".join(row.note for row in aside if row.note) or "set aside"
        reason = reasons if aside else NOTHING
        yield Label(query=query, grade="aside", reason=reason)
