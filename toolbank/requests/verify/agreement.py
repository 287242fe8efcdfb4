"""Measure how far grades agree: with first labels, and graders with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.bank.bank import Bank, GraderKind, Label, group_labels
from toolbank.bank.ranking import wilson_interval
from toolbank.requests.verify.directions import own_labels
from toolbank.system.numbers import unsigned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from toolbank.requests.verify.gradings import Grading

Graded = Mapping[str, Sequence[Label]]

NO_GRADE = "no"
"""The grade of a tool that is neither needed nor an alternative."""

_SCALE = ("needed", "alternative", NO_GRADE)
_RESAMPLES, _BLOCK = 2000, 100

METHOD = (
    "over the tools of the first call, for requests that neither grader set aside; 95 % percentile "
    f"bootstrap over requests, {_RESAMPLES:,} resamples"
)


def measure_share(count: int, n: int) -> dict[str, Any]:
    """Make a share with its 95 % Wilson interval; None for all three without cases."""
    low, high = wilson_interval(count, n) if n else (None, None)
    share = count / n if n else None
    return {"count": count, "n": n, "share": share, "low": low, "high": high}


def read_tools(labels: Iterable[Label]) -> dict[str, str]:
    """Read the grades of a request by tool; a tool that is missing has none."""
    return {label.tool: label.grade for label in labels if label.tool}


def cohen_kappa(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Compute Cohen's kappa of tables of counts [..., k, k], one grader's grades by the other's.

    NaN if both gave all cases the same grade. J. Cohen, "A coefficient of agreement for nominal
    scales", Educational and Psychological Measurement 20 (1960), equation 1.
    """
    total = counts.sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.trace(counts, axis1=-2, axis2=-1) / total
        chance = (counts.sum(-1) * counts.sum(-2)).sum(-1) / total**2
        kappa: NDArray[np.float64] = (observed - chance) / (1 - chance)
    return np.where(chance == 1, np.nan, kappa)


def fleiss_kappa(counts: NDArray[Any]) -> float:
    """Compute Fleiss' kappa of counts [n, k]: how many graders gave each case each grade.

    J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76
    (1971).
    """
    graders = counts.sum(1)[0]
    observed = ((counts**2).sum(1) - graders) / (graders * (graders - 1))
    chance = ((counts.sum(0) / counts.sum()) ** 2).sum()
    return (
        float("nan")
        if chance == 1
        else float((observed.mean() - chance) / (1 - chance))
    )


def _estimate_kappa(tables: NDArray[np.int64], seed: int) -> dict[str, float | None]:
    """Cohen's kappa of tables [n, k, k] of n requests, with its interval."""
    n = len(tables)
    random = np.random.default_rng(unsigned(seed))
    resampled = np.concatenate(
        [
            cohen_kappa(
                np.tensordot(random.multinomial(n, [1 / n] * n, _BLOCK), tables, 1)
            )
            for _ in range(_RESAMPLES // _BLOCK)
        ]
    )
    known = resampled[~np.isnan(resampled)]
    kappa = float(cohen_kappa(tables.sum(0)))
    if np.isnan(kappa) or not len(known):
        return dict.fromkeys(("kappa", "low", "high"))
    low, high = np.quantile(known, (0.025, 0.975)).tolist()
    return {"kappa": kappa, "low": low, "high": high}


def compare_all(
    sources: Mapping[tuple[GraderKind, str], Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
    seed: int,
) -> dict[str, Any]:
    """Compare each two graders, by kind and name, over the tools that both were shown.

    `shown` has the tools of the first call by request and key of its candidates; a person who graded
    a file without candidates is taken to have seen those of the other. Keys of the content: `method`;
    `pairs`, each with `graders`, `kinds`, the number of `requests`, of requests `aside` (set aside by
    either, and not compared), of `tools` and of those graded the `same`, `kappa` with `low` and `high`
    over three grades (needed, alternative, no), and `needed`, kappa of needed against the rest; and
    `fleiss`, Fleiss' kappa of three people or more over the tools that all of them graded.
    """
    pairs = []
    for (one, first), (other, second) in combinations(sources.items(), 2):
        tables = []
        aside = 0
        for query in sorted(first.keys() & second.keys()):
            tools = _find_common([first[query], second[query]], shown)
            if tools and (first[query].aside or second[query].aside):
                aside += 1
            elif tools:
                tables.append(_tabulate(first[query], second[query], tools))
        if not tables:
            continue
        stacked = np.stack(tables)
        binary = stacked[:, :1].sum(1), stacked[:, 1:].sum(1)
        needed = np.stack([np.stack([b[:, 0], b[:, 1:].sum(1)], -1) for b in binary], 1)
        pairs.append(
            {
                "graders": [one[1], other[1]],
                "kinds": [one[0], other[0]],
                "requests": len(tables),
                "aside": aside,
                "tools": int(stacked.sum()),
                "same": int(np.trace(stacked.sum(0))),
                **_estimate_kappa(stacked, seed),
                "needed": _estimate_kappa(needed, seed),
            }
        )
    people = [found for (kind, _), found in sources.items() if kind == "person"]
    fleiss = _compare_people(people, shown) if len(people) > 2 else None
    return {"method": METHOD, "pairs": pairs, "fleiss": fleiss} if pairs else {}


def _find_common(
    gradings: Sequence[Grading], shown: Mapping[tuple[str, str], Collection[str]]
) -> set[str]:
    """The tools that all of these gradings of a request were shown."""
    keys = {(one.query, one.candidates) for one in gradings if one.candidates}
    return (
        set.intersection(*(set(shown.get(key, ())) for key in keys)) if keys else set()
    )


def _grade(grading: Grading, tools: Iterable[str]) -> list[int]:
    grades = read_tools(grading.labels)
    return [_SCALE.index(grades.get(tool, NO_GRADE)) for tool in tools]


def _tabulate(
    first: Grading, second: Grading, tools: Collection[str]
) -> NDArray[np.int64]:
    table = np.zeros((len(_SCALE), len(_SCALE)), np.int64)
    np.add.at(table, (_grade(first, tools), _grade(second, tools)), 1)
    return table


def _compare_people(
    people: Sequence[Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
) -> dict[str, Any] | None:
    counts: list[NDArray[np.int64]] = []
    requests = 0
    for query in sorted(set.intersection(*(set(one) for one in people))):
        of = [one[query] for one in people]
        tools = () if any(one.aside for one in of) else _find_common(of, shown)
        requests += bool(tools)
        grades = np.array([_grade(one, tools) for one in of], np.int64).T
        counts += [np.bincount(row, minlength=len(_SCALE)) for row in grades]
    if not counts:
        return None
    kappa = fleiss_kappa(np.stack(counts))
    known = None if np.isnan(kappa) else kappa
    return {
        "kappa": known,
        "people": len(people),
        "requests": requests,
        "tools": len(counts),
    }


def measure_agreement(bank: Bank, graded: Graded) -> dict[str, Any]:
    """Measure the agreement of grades with the first labels of the graded requests.

    Keys: `requests`, of these `aside` (excluded) and `same` (exactly the first labels are needed);
    of the first labels of the others `labels`, `confirmed` (needed), `alternative` and `refuted`;
    `added`, needed tools that were no label; `precision` and `recall` of the first labels against
    the needed tools, None without any.
    """
    firsts = {q.id: own_labels(bank, q) for q in bank.queries if q.id in graded}
    return _compare(firsts, graded)


def compare_graders(graded: Graded, others: Graded) -> dict[str, Any]:
    """Measure the agreement of two graders on the requests that both graded.

    Keys are those of `measure_agreement`; the needed tools of `graded` count as first labels.
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
