"""Having the labels of a bank verified: candidates, checks, and a model's grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.files import write_records
from toolbank.bank.labels import Label
from toolbank.journal import Journal
from toolbank.llm.limits.stop import EarlyEnd
from toolbank.system import aio
from toolbank.system.numbers import count
from toolbank.verify.candidates import pool_candidates
from toolbank.verify.checks import Finding, check_labels
from toolbank.verify.config import VerifyConfig
from toolbank.verify.engine import find_verifier
from toolbank.verify.fold import fold_labels, measure_agreement
from toolbank.verify.grader import Grader, Grades, grade

CANDIDATES, FINDINGS = "candidates.parquet", "findings.parquet"


@dataclass(frozen=True)
class Verification:
    """The labels in the order of queries, the content of verify.json, and what was done.

    `lacks` says how many requests are not graded, where another run may get further; `waiting`
    what the user has to do before replies come, "" where none are waited for.
    """

    labels: Sequence[Label]
    content: dict[str, Any]
    message: str
    lacks: str = ""
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: EarlyEnd | None = None


def verify_bank(
    bank: Bank,
    config: VerifyConfig,
    *,
    folder: Path,
    tools_id: str,
    domain: str,
    seed: int,
    journal: Journal,
) -> Verification:
    """Pool candidates, check the labels, and have the candidates graded where a model is named.

    `folder` keeps candidates.parquet, which is on disk before the first call, and in the end has
    findings.parquet.
    `tools_id` names the bank's tools. The labels are a function of candidates and journal.
    Keys of the content: `engine` and `candidates`; `findings`, how many labels and requests each
    check found, with examples; with a model `model`, `prompt_hash`, `agreement` (as of
    `measure_agreement`) and `not_graded`, a row with the reason a request; `counts` of labels.

    Raises:
        InputError: the encoder, the engine, its file or the prompt can't be used.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Every reply
            that came is in the journal.
    """
    kind = find_verifier(config)
    pooled = pool_candidates(bank, config.candidates, folder / CANDIDATES, tools_id)
    findings = list(check_labels(bank, pooled.of))
    graded = Grades()
    if kind is not None:
        grader = Grader(kind, bank, pooled.of, config, domain, seed, journal)
        graded = aio.run(grade(grader), uvloop=True)
    if not graded.waiting:
        write_records(folder / FINDINGS, Finding, findings)
    labels = tuple(fold_labels(bank, graded.labels, findings, config))
    shown = sum(map(len, pooled.of.values()))
    content = {
        "engine": config.engine,
        "candidates": {
            "requests": len(bank.queries),
            "mean": shown / len(bank.queries) if bank.queries else 0,
        },
        "findings": _describe_findings(findings),
        **graded.content,
        **({"agreement": measure_agreement(bank, graded.labels)} if kind else {}),
        "counts": _count(labels),
    }
    return Verification(
        labels,
        content,
        _summarise(content, graded),
        lacks=graded.lacks,
        problems=(*graded.problems, *_list_findings(content["findings"])),
        waiting=graded.waiting,
        ended_early=graded.ended_early,
    )


def _describe_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """By check: how many labels of how many requests, and the tools with how often each."""
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


def _summarise(content: Mapping[str, Any], graded: Grades) -> str:
    counts = content["counts"]
    said = (
        f"{count(counts['requests'], 'request')} with verified labels: "
        f"{counts['needed']:,} needed, {count(counts['alternative'], 'alternative')}, "
        f"{counts['aside']:,} set aside"
    )
    return f"{said}; {graded.spent}" if graded.spent else said
