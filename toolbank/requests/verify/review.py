"""Choose what people review, and make grades of their judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from toolbank.bank.bank import Bank, Label, group_labels
from toolbank.bank.split import sample_queries
from toolbank.requests.verify.candidates import Candidate, read_candidates
from toolbank.requests.verify.directions import own_labels
from toolbank.requests.verify.gradings import NO_GRADE, NOTHING, Grading, make_grading
from toolbank.requests.verify.review_forms import (
    JUDGEMENTS,
    SheetAnswer,
    SheetRow,
    read_sheet,
)
from toolbank.system.errors import InputError


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
    verified = group_labels(bank.labels)
    rows = []
    for query in queries:
        now = verified.get(query.id)
        needed = own_labels(bank, query) if now is None else tuple(now.needed)
        grades = dict.fromkeys(needed, "needed")
        stand = {
            n: t
            for t, names in (now.alternatives if now else {}).items()
            for n in names
        }
        grades |= dict.fromkeys(stand, "alternative")
        tools = list(dict.fromkeys([*grades, *(row.tool for row in pooled[query.id])]))
        tools = [name for name in tools if name in bank.index]
        if blind:
            Random(f"{seed}:review:{query.id}").shuffle(tools)
        for name in tools:
            row = SheetRow(
                query.id, query.query, name, bank.tools[bank.index[name]].summary
            )
            grade = {
                "grade_now": "aside"
                if now and now.aside
                else grades.get(name, NO_GRADE),
                "alternative_for_now": stand.get(name, ""),
            }
            rows.append(row if blind else row._replace(**grade))
    return rows


def _read_current(path: Path) -> dict[str, list[Candidate]]:
    """Read the present candidates of each request; those of earlier keys come later in the file."""
    current: dict[str, list[Candidate]] = {}
    for row in read_candidates(path):
        rows = current.setdefault(row.query, [])
        if not rows or rows[0].key == row.key:
            rows.append(row)
    return current


@dataclass(frozen=True)
class Review:
    """The grades that sheets contain. `unfinished` are requests that a person has begun."""

    gradings: Sequence[Grading]
    unfinished: Sequence[tuple[str, str]]


def read_reviews(paths: Iterable[Path], bank: Bank, candidates: Path) -> Review:
    """Read the judgements of sheets by person and request.

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
            if not any(row.judgement for row in rows):
                continue
            if (person, query) in seen:
                raise InputError(
                    f"{rows[0].place}: {person} has judged {query} in {seen[person, query]}, too. "
                    "Give one of the files, or another name in the column annotator."
                )
            seen[person, query] = path
            own = pooled.get(query, [])
            names = {
                bank.tools[bank.index[row.tool]].name for row in rows if row.judgement
            }
            is_whole = all(row.tool in names for row in own if row.tool in bank.index)
            is_begun = path.suffix in (".csv", ".tsv") and any(
                row.judgement == "needed" for row in rows
            )
            if not (is_whole or is_begun or any(r.judgement == "aside" for r in rows)):
                unfinished.append((person, query))
                continue
            labels = list(_label(rows, bank, query))
            key = own[0].key if own else ""
            gradings.append(
                make_grading(query, texts[query], "person", person, labels, key)
            )
    return Review(gradings, unfinished)


def _check(row: SheetAnswer, bank: Bank, texts: Mapping[str, str]) -> None:
    """Refuse a judgement that can't be used, at its place.

    Raises:
        InputError: what is wrong, and what to do.
    """
    wrong = ""
    if row.request_id not in texts:
        wrong = f"no request of this bank has the id {row.request_id!r}. Give the sheet's own run"
    elif row.request and row.request.split() != texts[row.request_id].split():
        wrong = (
            f"{row.request_id} has another text in this bank. Export the sheet again, and judge the "
            "present text"
        )
    elif row.tool not in bank.index and (
        row.tool or row.judgement not in ("", "aside")
    ):
        wrong = (
            f"no tool of this bank is named {row.tool!r}. Use a name of the catalogue"
        )
    elif row.judgement not in ("", *JUDGEMENTS):
        wrong = f"judgement {row.judgement!r}. Write one of {', '.join(JUDGEMENTS)}, or nothing"
    elif row.judgement == "alternative" and not row.alternative_for:
        wrong = (
            "an alternative to what? Write the needed tool's name under alternative_for"
        )
    elif row.alternative_for and row.judgement != "alternative":
        wrong = (
            "alternative_for is filled in, so that judgement should be `alternative`"
        )
    if wrong:
        raise InputError(f"{row.place}: {wrong}. Nothing was changed.")


def _label(rows: Sequence[SheetAnswer], bank: Bank, query: str) -> Iterator[Label]:
    """The labels of a request that one person has judged.

    Raises:
        InputError: judgements contradict each other.
    """

    def own(name: str) -> str:
        return bank.tools[bank.index[name]].name if name in bank.index else name

    said: dict[str, SheetAnswer] = {}
    for row in rows:
        other = said.setdefault(own(row.tool), row) if row.judgement else row
        if other is not row and other.judgement != row.judgement:
            raise InputError(
                f"{row.place}: {row.tool} is `{other.judgement}` at {other.place}. Keep one of them."
            )
    by = {one: [r for r in said.items() if r[1].judgement == one] for one in JUDGEMENTS}
    if by["aside"] and by["needed"]:
        [(_, aside), *_], [(_, row), *_] = by["aside"], by["needed"]
        raise InputError(
            f"{row.place}: needed, and the request is set aside at {aside.place}. Keep one of them."
        )
    if by["aside"]:
        reasons = [row.note for _, row in by["aside"] if row.note]
        yield Label(
            query=query, grade="aside", reason="; ".join(reasons) or "set aside"
        )
        return
    needed = {name for name, _ in by["needed"]}
    for name, row in by["needed"]:
        yield Label(query=query, tool=name, grade="needed", reason=row.note)
    for name, row in by["alternative"]:
        stands_for = own(row.alternative_for)
        if stands_for not in needed:
            raise InputError(
                f"{row.place}: an alternative to {row.alternative_for!r}, which is not judged as "
                "needed. Judge that tool as needed, or correct alternative_for."
            )
        yield Label.alternative(query, name, stands_for, row.note)
    if not needed:
        yield Label(query=query, grade="aside", reason=NOTHING)
