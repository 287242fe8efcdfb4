"""Verify the labels of a bank by checks and by the grades of people and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.files import read_records, write_records
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import EngineContext, release_engines
from toolbank.llm.journal import Journal
from toolbank.llm.step import StepResult, run_step
from toolbank.requests.engines import read_grades_file
from toolbank.requests.verify import CHECKS_ALONE, VerifyConfig
from toolbank.requests.verify.candidates import (
    Candidate,
    Finding,
    add_further,
    check_labels,
    pool_candidates,
    select_findings,
)
from toolbank.requests.verify.directions import Directions
from toolbank.requests.verify.further import FurtherTools
from toolbank.requests.verify.grade_step import Grades, GradeStep
from toolbank.requests.verify.gradings import (
    GRADES,
    Grading,
    add_gradings,
    choose_gradings,
    compare_graders,
    fold_labels,
    grade_by_dataset,
    is_of_checks,
    last_of_sources,
    measure_agreement,
    read_gradings,
    write_gradings,
)
from toolbank.system.numbers import count

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
    grades.

    Keys of the content: `engine` and `set_aside` as configured; `candidates` of a request, counted
    over both rounds; `directions`, how many candidates each found, and how many are needed;
    `findings`, how many labels and requests each check found, with examples; with an engine
    `model`, `prompt_hash`, `not_graded`, a row with the reason for each request, and
    `second_round`, how many requests had one, how many of them its tools changed, and how many
    free answers matched the catalogue by name, by description or not; with grades `agreement` of
    all merged grades (as of `measure_agreement`), `graders`, a row for each source, and
    `people_and_models`; `unused`, the stored grades that do not apply, by reason; `counts` of
    labels.

    Raises:
        InputError: the encoder, the engine, its file or the prompt can't be used.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Every received
            reply is in the journal.
    """
    given = grade_by_dataset(bank.labels, bank)
    bank = replace(bank, labels=())
    stored = read_gradings(folder / GRADES)
    kind = find_model(config) if config else None
    if config and kind and kind.plays_back and config.replies:
        read_grades_file(config.replies, bank.tools, {q.id for q in bank.queries})
    graded, findings = StepResult(Grades(), ""), list[Finding]()
    pooled: Mapping[str, Sequence[Candidate]] = {}
    before: Mapping[str, Any] = earlier or {} if config is None else {}
    set_aside = config.set_aside if config else before.get("set_aside", ())
    has_findings = bool(before) and (folder / FINDINGS).is_file()
    if has_findings:
        findings = select_findings(bank, read_records(folder / FINDINGS, Finding))
    if config is not None:
        graded_keys = {one.candidates for one in stored}
        path = folder / CANDIDATES
        make_directions = cache(partial(_make_directions, bank))
        pooled = pool_candidates(
            bank, config.candidates, path, tools_id, make_directions, graded_keys
        )
        findings = list(check_labels(bank, pooled))
        if kind is not None:
            context = EngineContext(bank.tools, seed, journal.path.parent)
            by: GraderKind = config.grader if kind.plays_back else "model"
            further = None
            if config.second_round and not kind.plays_back:
                further = FurtherTools(make_directions())
            make_step = partial(
                GradeStep, bank, pooled, config, domain, seed, further, by=by
            )
            graded = run_step(config, journal, context, make_step)
    if not graded.waiting:
        stored = add_gradings(stored, graded.value.gradings)
        if graded.value.gradings:
            add_further(folder / CANDIDATES, graded.value.further)
            write_gradings(folder / GRADES, stored)
        if not has_findings:
            write_records(folder / FINDINGS, Finding, findings)
    chosen = choose_gradings(bank, [*given, *stored])
    labels = tuple(fold_labels(bank, chosen.of, findings, set_aside))
    content = {
        "engine": config.engine if config else CHECKS_ALONE,
        "candidates": before.get("candidates")
        or _count_candidates(pooled, graded.value),
        "directions": before.get("directions")
        or _count_directions(pooled, graded.value, labels),
        "set_aside": list(set_aside),
        "findings": _describe_findings(findings),
        **graded.value.content,
        **_describe_graders(bank, chosen.of, [*given, *stored]),
        "unused": dict(chosen.unused),
        "counts": _count(labels),
    }
    said = (_summarise(content) if not graded.waiting else "", graded.message)
    return StepResult(
        LabelVerification(labels, content),
        "; ".join(filter(None, said)),
        graded.lacks,
        (
            *graded.problems,
            *_list_second_rounds(content),
            *_list_graders(content),
            *_list_findings(content["findings"]),
        ),
        waiting=graded.waiting,
        ended_early=graded.ended_early,
    )


def _make_directions(bank: Bank) -> Directions:
    # The encoder may need the memory of a model that an earlier stage loaded.
    release_engines()
    return Directions(bank)


def _count_candidates(
    pooled: Mapping[str, Sequence[Candidate]], grades: Grades
) -> dict[str, float]:
    """Count the requests with candidates, and the candidates of a request in all rounds."""
    rows = chain(chain.from_iterable(pooled.values()), grades.further)
    sizes = Counter(row.query for row in rows)
    mean = sizes.total() / len(pooled) if pooled else 0
    return {
        "requests": len(pooled),
        "mean": mean,
        "most": max(sizes.values(), default=0),
    }


def _count_directions(
    pooled: Mapping[str, Sequence[Candidate]], grades: Grades, labels: Sequence[Label]
) -> dict[str, dict[str, int]]:
    """Count the candidates that each direction found, and how many of them are needed."""
    wanted = {(one.query, one.tool) for one in labels if one.grade == "needed"}
    found, needed = Counter[str](), Counter[str]()
    for row in chain(chain.from_iterable(pooled.values()), grades.further):
        found.update(row.found_by)
        needed.update(row.found_by if (row.query, row.tool) in wanted else ())
    return {by: {"candidates": found[by], "needed": needed[by]} for by in sorted(found)}


def _describe_graders(
    bank: Bank, merged: Mapping[str, Sequence[Label]], gradings: Sequence[Grading]
) -> dict[str, Any]:
    """The agreement of merged grades, and of each source, with first labels and each other."""
    by_hand = {
        query: labels for query, labels in merged.items() if not is_of_checks(labels)
    }
    if not by_hand:
        return {}
    rows = [
        {
            "kind": kind,
            "source": source,
            "requests": len(of),
            "used": sum(merged[query] == labels for query, labels in of.items()),
            "agreement": measure_agreement(bank, of),
        }
        for (kind, source), of in last_of_sources(bank, gradings).items()
        if kind != "check" and of
    ]
    people, models = (
        choose_gradings(bank, [one for one in gradings if one.kind == kind]).of
        for kind in ("person", "model")
    )
    both = compare_graders(models, people)
    return {
        "agreement": measure_agreement(bank, by_hand),
        "graders": rows,
        **({"people_and_models": both} if both["requests"] else {}),
    }


def _list_second_rounds(content: Mapping[str, Any]) -> Iterator[str]:
    """List how often there was a second round, and what became of free answers."""
    rounds = content.get("second_round")
    if rounds and rounds["requests"] + sum(rounds["free_answers"].values()):
        free = rounds["free_answers"]
        yield (
            f"second round: {count(rounds['requests'], 'request')} "
            f"({100 * rounds['share']:.0f} %), and its tools changed the labels of "
            f"{rounds['changed']:,}; of the tools that the model missed, {free['name']:,} were "
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


def _count(labels: Sequence[Label]) -> dict[str, int]:
    grades = Counter(label.grade for label in labels)
    return {
        "requests": len({label.query for label in labels}),
        **{grade: grades[grade] for grade in ("needed", "alternative", "aside")},
    }


def _summarise(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    return (
        f"{count(counts['requests'], 'request')} with verified labels: "
        f"{counts['needed']:,} needed, {count(counts['alternative'], 'alternative')}, "
        f"{counts['aside']:,} excluded"
    )
