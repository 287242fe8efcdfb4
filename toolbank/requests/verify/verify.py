"""Verify the labels of a bank by checks and by the grades of people and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.files import read_records, write_records
from toolbank.bank.ranking import measure_share
from toolbank.config.explain import read_checked
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import release_engines
from toolbank.llm.journal import Journal
from toolbank.llm.step import StepResult
from toolbank.requests.engines import read_grades_file
from toolbank.requests.verify import CHECKS_ALONE, FINDINGS, VerifyConfig
from toolbank.requests.verify.agreement import (
    compare_all,
    measure_agreement,
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
from toolbank.requests.verify.further import FoundTools, FurtherTools
from toolbank.requests.verify.grade_step import Grades
from toolbank.requests.verify.gradings import (
    GRADES,
    EffectiveGradings,
    Graded,
    Grading,
    add_gradings,
    choose_gradings,
    fold_labels,
    grade_by_labels,
    is_of_checks,
    last_of_sources,
    read_gradings,
    write_gradings,
)
from toolbank.requests.verify.holes import HoleFigures
from toolbank.requests.verify.panel import Panel
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.system.files import write_json
from toolbank.system.numbers import count

_OF_MODELS = ("panel", "sample", "disagreements", "holes")

CANDIDATES, FURTHER = "candidates.parquet", "further.json"


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
    retrievers: Sequence[RetrieverConfig] = (),
) -> StepResult[LabelVerification]:
    """Pool candidates, check the labels, grade them by an engine if one is set, and merge all grades.

    `folder` stores candidates.parquet, which is on disk before the first call, grades.parquet with
    every grade ever given, and in the end findings.parquet. Without `config`, only the stored
    grades are merged with the findings of the previous verification, whose content is `earlier`.
    `tools_id` identifies the bank's tools. Labels of the bank are from its dataset and count as
    grades. Requests that no tool should fit are graded like the others and have labels in the
    result; the content counts only the others. `retrievers` are those of the recipe, for the hole
    check.

    Keys of the content: `engine` and `set_aside` as configured; `candidates` of a request, counted
    over both calls; `directions`, how many candidates each found, and how many are needed;
    `findings`, how many labels and requests each check found, with examples; with an engine the
    part of `Panel.grade`, whose rows of `not_graded` say `instead` whose grade counts; with grades
    `agreement` of all merged grades (as of `measure_agreement`), `graders`, a row for each source,
    `kappa` (as of `compare_all`), `verified`, `rates` and `open`; `holes`, if they were checked;
    `unused`, the stored grades that do not apply, by reason; `counts` of labels.

    Raises:
        InputError: the encoder, the engine, its file or the prompt can't be used.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Every received
            reply is in the journal.
    """
    bank, own = replace(bank, labels=()), bank.labels
    every = replace(bank, queries=(*bank.queries, *bank.missing))
    given = list(grade_by_labels(own, every, "model", "dataset"))
    stored, before = read_gradings(folder / GRADES), dict(earlier or {})
    # What models have said before stays where no model is asked.
    of_models = {key: one for key, one in before.items() if key in _OF_MODELS}
    has_findings = config is None and before and (folder / FINDINGS).is_file()
    findings: list[Finding] = []
    if has_findings:
        findings = select_findings(bank, read_records(folder / FINDINGS, Finding))
    pooled: Mapping[str, Sequence[Candidate]] = {}
    panel: Panel | None = None
    graded = StepResult(Grades(), "")
    if config is not None:
        before = {}
        kind = find_model(config.by_grader()[0])
        is_file = kind is not None and kind.plays_back
        if is_file and config.replies:
            read_grades_file(config.replies, bank.tools, {q.id for q in every.queries})
        make_directions = cache(partial(_make_directions, bank))
        pooled = pool_candidates(
            every,
            config.candidates,
            folder / CANDIDATES,
            tools_id,
            make_directions,
            {one.candidates for one in stored},
        )
        findings = list(check_labels(bank, pooled))
        if kind is not None:
            has_second = config.second_call and not is_file
            path, further = folder / FURTHER, None
            if has_second:
                known = path.is_file() and read_checked(path, dict[str, FoundTools])
                further = FurtherTools(bank, make_directions, tools_id, known or {})
            panel = Panel(bank, config, domain, seed, journal, pooled, further)
            graded = panel.grade()
            if further and further.found:
                found = {key: asdict(one) for key, one in further.found.items()}
                write_json(path, dict(sorted(found.items())))
            of_models = of_models if is_file else {}
    grades = graded.value
    of_models |= grades.content
    if grades.gradings:
        stored = add_gradings(stored, grades.gradings)
        add_further(folder / CANDIDATES, grades.further)
        write_gradings(folder / GRADES, stored)
    if not has_findings and (grades.gradings or not graded.waiting):
        write_records(folder / FINDINGS, Finding, findings)
    gradings = [*given, *stored]
    names = [one["model"] for one in of_models.get("panel", ())]
    chosen = choose_gradings(every, gradings, names)
    by_hand = {q: of for q, of in chosen.of.items() if not is_of_checks(of)}
    if grades.content:
        by = {query: {"instead": of[0].source} for query, of in by_hand.items()}
        of_models["not_graded"] = [
            row | by.get(row["query"], {}) for row in grades.lost
        ]
    set_aside = config.set_aside if config else before.get("set_aside", ())
    labels = tuple(fold_labels(every, chosen.of, findings, set_aside))
    shown = [*chain.from_iterable(pooled.values()), *grades.further]
    holes: StepResult[HoleFigures | None] = StepResult(None, "")
    if panel and panel.config.holes and not (is_file or graded.waiting):
        holes = panel.check_holes(labels, grades, retrievers)
    sources = last_of_sources(bank, gradings)
    compared = compare_all(sources, read_shown(folder / CANDIDATES), seed)
    mean = len(shown) / len(every.queries) if every.queries else 0
    candidates = {"requests": len(every.queries), "mean": mean}
    content = {
        "engine": config.engine if config else CHECKS_ALONE,
        "candidates": before.get("candidates") or candidates,
        "directions": before.get("directions") or _count_directions(shown, labels),
        "set_aside": list(set_aside),
        "findings": _describe_findings(findings),
        **of_models,
        **_describe_graders(bank, by_hand, chosen, sources),
        **({"kappa": asdict(compared)} if compared else {}),
        **({"holes": asdict(holes.value)} if holes.value else {}),
        "unused": dict(chosen.unused),
        "counts": _count(bank, labels),
    }
    waiting = graded.waiting or holes.waiting
    summary = _summarise(content["counts"]) if labels or not waiting else ""
    return StepResult(
        LabelVerification(labels, content),
        "; ".join(filter(None, (summary, graded.message, holes.message))),
        "; ".join(filter(None, (graded.lacks, holes.lacks))),
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
    by_hand: Graded,
    chosen: EffectiveGradings,
    sources: Mapping[tuple[GraderKind, str], Mapping[str, Grading]],
) -> dict[str, Any]:
    """The agreement of merged grades, and of each source, with first labels."""
    by_hand = {q.id: by_hand[q.id] for q in bank.queries if q.id in by_hand}
    if not by_hand:
        return {}
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
        "graders": [
            {
                "kind": by[0],
                "source": by[1],
                "requests": len(of),
                "used": chosen.used[by],
                "agreement": measure_agreement(
                    bank, {q: g.labels for q, g in of.items()}
                ),
            }
            for by, of in sources.items()
        ],
        "verified": {"count": len(by_hand), "n": len(bank.queries), "share": share},
        "rates": {key: asdict(measure_share(*of)) for key, of in rates.items()},
        "open": list(chosen.open),
    }


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


def _summarise(counts: Mapping[str, int]) -> str:
    return (
        f"{count(counts['requests'], 'request')} with verified labels: "
        f"{counts['needed']:,} needed, {count(counts['alternative'], 'alternative')}, "
        f"{counts['aside']:,} excluded"
    )
