"""The labels of a bank, folded from grades and findings, and how far graders agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from toolbank.bank.bank import Bank, Label, group_labels
from toolbank.verify.candidates import own_labels
from toolbank.verify.checks import Finding
from toolbank.verify.config import Check, VerifyConfig

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
