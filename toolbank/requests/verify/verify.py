"""Verify the labels of a bank by checks and by the grades of people and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank, Label
from toolbank.bank.files import read_records, write_records
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import release_engines
from toolbank.llm.journal import Journal
from toolbank.llm.step import StepResult
from toolbank.requests.engines import read_grades_file
from toolbank.requests.verify import CHECKS_ALONE, VerifyConfig
from toolbank.requests.verify.agreement import (
    GraderAgreement,
    compare_all,
    compare_graders,
    measure_agreement,
    measure_share,
)
from toolbank.requests.verify.candidates import (
    Candidate,
    Finding,
    add_further,
    check_labels,
    pool_candidates,
    read_shown,
    select_findings,
)
from toolbank.requests.verify.directions import Directions
from toolbank.requests.verify.further import FurtherTools
from toolbank.requests.verify.grade_step import Grades
from toolbank.requests.verify.gradings import (
    GRADES,
    EffectiveGradings,
    Grading,
    add_gradings,
    choose_gradings,
    fold_labels,
    grade_by_dataset,
    is_of_checks,
    last_of_sources,
    read_gradings,
    write_gradings,
)
from toolbank.requests.verify.holes import HoleCheck, HoleFigures
from toolbank.requests.verify.panel import Panel
from toolbank.system.numbers import count

_OF_MODELS = ("panel", "sample", "disagreements", "holes")

CANDIDATES, FINDINGS = "candidates.parquet", "findings.parquet"


@dataclass(frozen=True)
class LabelVerification:
    """The labels in the order of queries, and the content of verify.json."""

    labels: Sequence[Label]
    content: dict[str, Any]


def verify_bank(
    bank: Bank,
    config: VerifyConfig | None,
    *,
    folder: Path,
    tools_id: str,
    domain: str,
    seed: int,
    journal: Journal,
    earlier: Mapping[str, Any] | None = None,
) -> StepResult[LabelVerification]:
    """Pool candidates, check the labels, grade them by an engine if one is set, and merge all grades.

    `folder` stores candidates.parquet, which is on disk before the first call, grades.parquet with
    every grade ever given, and in the end findings.parquet. Without `config`, only the stored
    grades are merged with the findings of the previous verification, whose content is `earlier`.
    `tools_id` identifies the bank's tools. Labels of the bank are from its dataset and count as
    grades. Missing-tool queries are graded like the others, and have labels in the result; the
    content counts only the others.

    Keys of the content: `engine` and `set_aside` as configured; `candidates` of a request, counted
    over both calls; `directions`, how many candidates each found, and how many are needed;
    `findings`, how many labels and requests each check found, with examples; with an engine
    `model`, `prompt_hash`, `not_graded`, a row with the reason for each request (`instead`: whose
    grade counts), and
    `second_call`, how many requests had one, how many of them its tools changed, and how many
    free answers matched the catalogue by name, by description or not; with grades `agreement` of
    all merged grades (as of `measure_agreement`), `graders`, a row for each source, and
    `people_and_models`; `unused`, the stored grades that do not apply, by reason; `counts` of
    labels.

    Raises:
        InputError: the encoder, the engine, its file or the prompt can't be used.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Every received
            reply is in the journal.
    """
    bank, labelled = replace(bank, labels=()), bank.labels
    every = replace(bank, queries=(*bank.queries, *bank.missing))
    given = grade_by_dataset(labelled, every)
    stored = read_gradings(folder / GRADES)
    kind = find_model(config.by_grader()[0]) if config else None
    if config and kind and kind.plays_back and config.replies:
        read_grades_file(config.replies, bank.tools, {q.id for q in every.queries})
    graded, findings = StepResult(Grades(), ""), list[Finding]()
    pooled: Mapping[str, Sequence[Candidate]] = {}
    before: Mapping[str, Any] = earlier or {} if config is None else {}
    set_aside = config.set_aside if config else before.get("set_aside", ())
    has_findings = bool(before) and (folder / FINDINGS).is_file()
    if has_findings:
        findings = select_findings(bank, read_records(folder / FINDINGS, Finding))
    asking: Panel | None = None
    if config is not None:
        graded_keys = {one.candidates for one in stored}
        path = folder / CANDIDATES
        make_directions = cache(partial(_make_directions, bank))
        pooled = pool_candidates(
            every, config.candidates, path, tools_id, make_directions, graded_keys
        )
        findings = list(check_labels(bank, pooled))
        if kind is not None:
            further = None
            if config.second_call and not kind.plays_back:
                further = FurtherTools(make_directions())
            asking = Panel(every, config, domain, seed, journal, pooled, further)
            graded = asking.grade()
    if graded.value.gradings or not graded.waiting:
        stored = add_gradings(stored, graded.value.gradings)
        if graded.value.gradings:
            add_further(folder / CANDIDATES, graded.value.further)
            write_gradings(folder / GRADES, stored)
        if not has_findings:
            write_records(folder / FINDINGS, Finding, findings)
    # What models have said before stays where no model is asked.
    is_asked = kind is not None and not kind.plays_back
    kept = (
        {}
        if is_asked
        else {k: v for k, v in (earlier or {}).items() if k in _OF_MODELS}
    )
    graders = graded.value.content.get("panel") or kept.get("panel", ())
    panel = [one["model"] for one in graders]
    chosen = choose_gradings(every, [*given, *stored], panel)
    by = {q: of[0].source for q, of in chosen.of.items() if not is_of_checks(of)}
    not_graded = [
        {**row, "instead": by[row["query"]]} if row["query"] in by else row
        for row in graded.value.content.get("not_graded", ())
    ]
    labels = tuple(fold_labels(every, chosen.of, findings, set_aside))
    shown = [*chain.from_iterable(pooled.values()), *graded.value.further]
    holes: StepResult[HoleFigures | None] = StepResult(None, "")
    compared = _compare_graders(bank, [*given, *stored], folder / CANDIDATES, seed)
    if asking and is_asked and asking.config.holes and not graded.waiting:
        seen = {one.query: set[str]() for one in graded.value.gradings}
        for row in shown:
            if row.query in seen:
                seen[row.query].add(row.tool)
        check = HoleCheck(bank, labels, seen, asking.config.holes, seed)
        holes = asking.grade_holes(check)
    content = {
        "engine": config.engine if config else CHECKS_ALONE,
        "candidates": before.get("candidates")
        or {
            "requests": len(every.queries),
            "mean": len(shown) / len(every.queries) if every.queries else 0,
        },
        "directions": before.get("directions") or _count_directions(shown, labels),
        "set_aside": list(set_aside),
        "findings": _describe_findings(findings),
        **kept,
        **graded.value.content,
        **({"not_graded": not_graded} if graded.value.content else {}),
        **_describe_graders(bank, chosen, [*given, *stored], panel),
        **({"kappa": asdict(compared)} if compared else {}),
        **({"holes": asdict(holes.value)} if holes.value else {}),
        "unused": dict(chosen.unused),
        "counts": _count(bank, labels),
    }
    waiting = graded.waiting or holes.waiting
    summary = _summarise(content) if labels or not waiting else ""
    said = (summary, graded.message, holes.message and f"hole check: {holes.message}")
    lacks = holes.lacks and f"hole check: {holes.lacks}"
    return StepResult(
        LabelVerification(labels, content),
        "; ".join(filter(None, said)),
        "; ".join(filter(None, (graded.lacks, lacks))),
        (
            *graded.problems,
            *holes.problems,
            *_list_second_calls(content),
            *_list_graders(content),
            *(compared.describe() if compared else ()),
            *([holes.value.describe()] if holes.value else ()),
            *_list_findings(content["findings"]),
        ),
        waiting=waiting,
        ended_early=graded.ended_early or holes.ended_early,
    )


def _make_directions(bank: Bank) -> Directions:
    # The encoder may need the memory of a model that an earlier stage loaded.
    release_engines()
    return Directions(bank)


def _count_directions(
    shown: Iterable[Candidate], labels: Sequence[Label]
) -> dict[str, dict[str, int]]:
    """Count the candidates that each direction found, and how many of them are needed."""
    wanted = {(one.query, one.tool) for one in labels if one.grade == "needed"}
    found, needed = Counter[str](), Counter[str]()
    for row in shown:
        found.update(row.found_by)
        needed.update(row.found_by if (row.query, row.tool) in wanted else ())
    return {by: {"candidates": found[by], "needed": needed[by]} for by in sorted(found)}


def _describe_graders(
    bank: Bank,
    chosen: EffectiveGradings,
    gradings: Sequence[Grading],
    panel: Sequence[str],
) -> dict[str, Any]:
    """The agreement of merged grades, and of each source, with first labels and each other."""
    ids = {query.id for query in bank.queries}
    by_hand = {
        query: labels
        for query, labels in chosen.of.items()
        if query in ids and not is_of_checks(labels)
    }
    if not by_hand:
        return {}
    rows = []
    for (kind, source), of in last_of_sources(bank, gradings).items():
        given = {query: one.labels for query, one in of.items()}
        counts = [
            not {*chosen.of.get(q, ())}.isdisjoint(own) for q, own in given.items()
        ]
        row = {"kind": kind, "source": source, "requests": len(of), "used": sum(counts)}
        rows.append({**row, "agreement": measure_agreement(bank, given)})
    people, models = (
        choose_gradings(bank, [one for one in gradings if one.kind == kind], panel).of
        for kind in ("person", "model")
    )
    both = compare_graders(models, people)
    agreed = measure_agreement(bank, by_hand)
    needed = agreed["confirmed"] + agreed["added"]
    share = len(by_hand) / len(bank.queries)
    rates = {
        "requests_set_aside": (agreed["aside"], len(by_hand)),
        "requests_unchanged": (agreed["same"], len(by_hand) - agreed["aside"]),
        "first_labels_needed": (agreed["confirmed"], agreed["labels"]),
        "needed_tools_labelled": (agreed["confirmed"], needed),
    }
    return {
        "agreement": agreed,
        "graders": [row for row in rows if row["kind"] != "check"],
        **({"people_and_models": both} if both["requests"] else {}),
        "verified": {"count": len(by_hand), "n": len(bank.queries), "share": share},
        "rates": {key: asdict(measure_share(*of)) for key, of in rates.items()},
        "open": list(chosen.open),
    }


def _compare_graders(
    bank: Bank, gradings: Sequence[Grading], candidates: Path, seed: int
) -> GraderAgreement | None:
    sources = {
        key: of
        for key, of in last_of_sources(bank, gradings).items()
        if key[0] != "check"
    }
    return (
        compare_all(sources, read_shown(candidates), seed) if len(sources) > 1 else None
    )


def _list_second_calls(content: Mapping[str, Any]) -> Iterator[str]:
    """List how often there was a second call, and what became of free answers."""
    second = content.get("second_call")
    if second and second["requests"] + sum(second["free_answers"].values()):
        free = second["free_answers"]
        yield (
            f"second call: {count(second['requests'], 'request')} "
            f"({100 * second['share']:.0f} %), and its tools changed the labels of "
            f"{second['changed']:,}; of the tools that the model missed, {free['name']:,} were "
            f"matched by name, {free['description']:,} by description, {free['none']:,} not"
        )


def _list_graders(content: Mapping[str, Any]) -> Iterator[str]:
    """List how much each of several graders graded, and how many grades do not apply."""
    graders = content.get("graders", ())
    if len(graders) > 1:
        for one in graders:
            yield (
                f"grades of the {one['kind']} {one['source']}: "
                f"{count(one['requests'], 'request')}, {one['used']:,} of them in use"
            )
    if both := content.get("people_and_models"):
        yield (
            f"people and models graded the same {count(both['requests'], 'request')}: "
            f"{both['same']:,} with the same needed tools"
        )
    if open_rows := content.get("open"):
        queries = {one["query"] for one in open_rows}
        yield (
            f"no majority for {count(len(open_rows), 'grade')} of {count(len(queries), 'request')}, "
            f"such as {open_rows[0]['query']}; verify.json lists them under open"
        )
    if unused := content["unused"]:
        said = ", ".join(f"{why} {n:,}" for why, n in unused.items())
        yield f"stored grades that do not apply to this bank: {said}"


def _describe_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """Count labels and requests by check, and how often each tool was found."""
    found: dict[str, Any] = {}
    for check in sorted({one.check for one in findings}):
        rows = [one for one in findings if one.check == check]
        tools = Counter(one.tool for one in rows)
        found[check] = {
            "labels": len(rows),
            "requests": len({one.query for one in rows}),
            "tools": dict(sorted(tools.items(), key=lambda row: (-row[1], row[0]))),
        }
    return found


def _list_findings(found: Mapping[str, Any]) -> Iterator[str]:
    for check, one in found.items():
        first = ", ".join(list(one["tools"])[:3])
        yield (
            f"{check}: {count(one['labels'], 'label')} of {count(one['requests'], 'request')}, "
            f"such as of {first}"
        )


def _count(bank: Bank, labels: Sequence[Label]) -> dict[str, int]:
    ids = {query.id for query in bank.queries}
    grades = Counter(label.grade for label in labels if label.query in ids)
    return {
        "requests": len(ids & {label.query for label in labels}),
        **{grade: grades[grade] for grade in ("needed", "alternative", "aside")},
    }


def _summarise(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    return (
        f"{count(counts['requests'], 'request')} with verified labels: "
        f"{counts['needed']:,} needed, {count(counts['alternative'], 'alternative')}, "
        f"{counts['aside']:,} excluded"
    )
