"""Measure how far grades agree: with first labels, and graders with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.bank.bank import Bank, GraderKind, QueryLabels, group_labels
from toolbank.requests.verify.directions import own_labels
from toolbank.requests.verify.gradings import NO_GRADE, Graded, Grading, read_tools
from toolbank.system.numbers import count, unsigned

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SCALE = ("needed", "alternative", NO_GRADE)
_RESAMPLES, _BLOCK = 2000, 100

METHOD = (
    "over the tools of the first call, for requests that neither grader set aside; 95 % percentile "
    f"bootstrap over requests, {_RESAMPLES:,} resamples"
)


@dataclass(frozen=True)
class Kappa:
    """A coefficient of agreement with its 95 % interval; None if all grades are the same."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "undefined, as all grades are the same"
        interval = "" if self.low is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{interval}"


@dataclass(frozen=True)
class PairAgreement:
    """How two graders agree on the requests that both graded.

    Requests that either set `aside` are counted and not compared. `same`: so many of the `tools` have
    the same grade. `kappa` is over three grades (needed, alternative, no), `needed` over needed and
    the rest.
    """

    graders: tuple[str, str]
    kinds: tuple[str, str]
    requests: int
    aside: int
    tools: int
    same: int
    kappa: Kappa
    needed: Kappa


@dataclass(frozen=True)
class PeopleAgreement:
    """Fleiss' kappa of three people or more, over the tools that all of them graded."""

    kappa: Kappa
    people: int
    requests: int
    tools: int


@dataclass(frozen=True)
class GraderAgreement:
    """How each two graders agree, and all people; `method` is how kappa is estimated."""

    method: str
    pairs: list[PairAgreement]
    fleiss: PeopleAgreement | None = None

    def describe(self) -> Iterator[str]:
        """Describe each pair in a line, and all people in one."""
        for pair in self.pairs:
            yield (
                f"{' and '.join(pair.graders)}: Cohen's kappa {pair.kappa}, over "
                f"{count(pair.tools, 'tool')} of {count(pair.requests, 'request')}"
            )
        if self.fleiss:
            yield f"{self.fleiss.people} people: Fleiss' kappa {self.fleiss.kappa}"


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
    agreed = observed.mean() - chance
    return float("nan") if chance == 1 else float(agreed / (1 - chance))


def _estimate_kappas(tables: NDArray[np.int64], seed: int) -> tuple[Kappa, Kappa]:
    """Cohen's kappa of tables [n, 3, 3] of n requests, and that of "needed" against the rest."""
    n = len(tables)
    random = np.random.default_rng(unsigned(seed))
    resampled = np.concatenate(
        [
            np.tensordot(random.multinomial(n, [1 / n] * n, _BLOCK), tables, 1)
            for _ in range(_RESAMPLES // _BLOCK)
        ]
    )
    whole = np.concatenate([tables.sum(0)[None], resampled])
    # "needed" is the first grade of the scale.
    rows = np.add.reduceat(whole, (0, 1), axis=1)
    return _make_kappa(whole), _make_kappa(np.add.reduceat(rows, (0, 1), axis=2))


def _make_kappa(tables: NDArray[np.int64]) -> Kappa:
    """Make the kappa of the first table, with its interval by the resampled others."""
    kappa, *others = cohen_kappa(tables).tolist()
    known = [one for one in others if one == one]
    if kappa != kappa or not known:
        return Kappa(None)
    return Kappa(kappa, *np.quantile(known, (0.025, 0.975)).tolist())


def compare_all(
    sources: Mapping[tuple[GraderKind, str], Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
    seed: int,
) -> GraderAgreement | None:
    """Compare each two graders, by kind and name, over the tools that both were shown.

    `shown` has the tools of the first call by request and key of its candidates; a person who graded
    a file without candidates is taken to have seen those of the other. None if no two graders graded
    the same request.
    """
    pairs = []
    for two in combinations(sources, 2):
        grades, aside = _read_common([sources[one] for one in two], shown)
        if not grades:
            continue
        counts = [np.bincount(3 * one + other, minlength=9) for one, other in grades]
        tables = np.stack(counts).reshape(-1, 3, 3)
        n, same = int(tables.sum()), int(np.trace(tables.sum(0)))
        kinds, names = zip(*two, strict=True)
        kappas = _estimate_kappas(tables, seed)
        pairs.append(PairAgreement(names, kinds, len(tables), aside, n, same, *kappas))
    people = [found for (kind, _), found in sources.items() if kind == "person"]
    fleiss = _compare_people(people, shown) if len(people) > 2 else None
    return GraderAgreement(METHOD, pairs, fleiss) if pairs else None


def _read_common(
    sources: Sequence[Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
) -> tuple[list[NDArray[np.int64]], int]:
    """Read the grades [n_graders, n_tools] of each request that all graded, as places in the scale.

    Requests that any of them set aside are counted and have no grades.
    """
    found, aside = [], 0
    for query in sorted(set.intersection(*map(set, sources))):
        of = [one[query] for one in sources]
        keys = {(query, one.candidates) for one in of if one.candidates}
        known = [set(shown.get(key, ())) for key in keys]
        if not known or not (tools := sorted(set.intersection(*known))):
            continue
        if any(one.aside for one in of):
            aside += 1
            continue
        given = (read_tools(one.labels) for one in of)
        rows = [[_SCALE.index(g.get(tool, NO_GRADE)) for tool in tools] for g in given]
        found.append(np.array(rows))
    return found, aside


def _compare_people(
    people: Sequence[Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
) -> PeopleAgreement | None:
    grades, _ = _read_common(people, shown)
    if not grades:
        return None
    scale = np.arange(len(_SCALE))[:, None, None]
    counts = (np.concatenate(grades, axis=1) == scale).sum(1).T
    kappa = Kappa(None if np.isnan(k := fleiss_kappa(counts)) else k)
    return PeopleAgreement(kappa, len(people), len(grades), len(counts))


def measure_agreement(bank: Bank, graded: Graded) -> dict[str, Any]:
    """Measure the agreement of grades with the first labels of the graded requests.

    Keys: `requests`, of these `aside` (excluded) and `same` (exactly the first labels are needed);
    of the first labels of the others `labels`, `confirmed` (needed), `alternative` and `refuted`;
    `added`, needed tools that were no label; `precision` and `recall` of the first labels against
    the needed tools, None without any.
    """
    verified = group_labels(label for labels in graded.values() for label in labels)
    n: Counter[str] = Counter()
    for query in bank.queries:
        if query.id in graded:
            n.update(compare_labels(own_labels(bank, query), verified[query.id]))
    keys = ("requests", "aside", "same", "labels", "confirmed", "alternative")
    needed_in_all = n["confirmed"] + n["added"]
    return {
        **{key: n[key] for key in (*keys, "refuted", "added")},
        "precision": n["confirmed"] / n["labels"] if n["labels"] else None,
        "recall": n["confirmed"] / needed_in_all if needed_in_all else None,
    }


def compare_labels(labelled: Collection[str], found: QueryLabels) -> dict[str, int]:
    """Count how the first labels of one request agree with its verified labels.

    Keys are the counts of `measure_agreement`.
    """
    if found.aside:
        return {"requests": 1, "aside": 1}
    first, needed = set(labelled), set(found.needed)
    others = first.intersection(found.all_alternatives)
    return {
        "requests": 1,
        "same": int(first == needed),
        "labels": len(first),
        "confirmed": len(first & needed),
        "alternative": len(others),
        "refuted": len(first - needed - others),
        "added": len(needed - first),
    }
