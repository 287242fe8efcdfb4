"""Measure how far grades agree: with first labels, and graders with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.bank.bank import Bank, GraderKind, QueryLabels, group_labels
from toolbank.bank.ranking import wilson_interval
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
class Share:
    """A share of n cases with its 95 % Wilson interval; all three are None without cases."""

    count: int
    n: int
    share: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.share is None or self.low is None or self.high is None:
            return "none"
        return (
            f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"
        )


def measure_share(count: int, n: int) -> Share:
    """Make a share with its interval."""
    return (
        Share(count, n, count / n, *wilson_interval(count, n)) if n else Share(count, n)
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
    return (
        float("nan")
        if chance == 1
        else float((observed.mean() - chance) / (1 - chance))
    )


def _estimate_kappa(tables: NDArray[np.int64], seed: int) -> Kappa:
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
    for ((kind, name), first), ((other_kind, other), second) in combinations(
        sources.items(), 2
    ):
        tables, aside = [], 0
        for query in sorted(first.keys() & second.keys()):
            both = first[query], second[query]
            tools = sorted(_find_common(both, shown))
            if not tools:
                continue
            if any(one.aside for one in both):
                aside += 1
                continue
            table = np.zeros((len(_SCALE), len(_SCALE)), np.int64)
            np.add.at(table, tuple(_grade(one, tools) for one in both), 1)
            tables.append(table)
        if not tables:
            continue
        stacked = np.stack(tables)
        # The grades other than "needed" are one.
        by_rows = np.add.reduceat(stacked, (0, 1), axis=1)
        needed = np.add.reduceat(by_rows, (0, 1), axis=2)
        pairs.append(
            PairAgreement(
                (name, other),
                (kind, other_kind),
                len(tables),
                aside,
                int(stacked.sum()),
                int(np.trace(stacked.sum(0))),
                _estimate_kappa(stacked, seed),
                _estimate_kappa(needed, seed),
            )
        )
    people = [found for (kind, _), found in sources.items() if kind == "person"]
    fleiss = _compare_people(people, shown) if len(people) > 2 else None
    return GraderAgreement(METHOD, pairs, fleiss) if pairs else None


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


def _compare_people(
    people: Sequence[Mapping[str, Grading]],
    shown: Mapping[tuple[str, str], Collection[str]],
) -> PeopleAgreement | None:
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
    known = Kappa(None if np.isnan(kappa) else kappa)
    return PeopleAgreement(known, len(people), requests, len(counts))


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


def _compare(firsts: Mapping[str, Sequence[str]], graded: Graded) -> dict[str, Any]:
    verified = group_labels(label for labels in graded.values() for label in labels)
    n: Counter[str] = Counter()
    for query, labelled in firsts.items():
        n.update(compare_labels(labelled, verified[query]))
    keys = ("requests", "aside", "same", "labels", "confirmed", "alternative")
    needed_in_all = n["confirmed"] + n["added"]
    return {
        **{key: n[key] for key in (*keys, "refuted", "added")},
        "precision": n["confirmed"] / n["labels"] if n["labels"] else None,
        "recall": n["confirmed"] / needed_in_all if needed_in_all else None,
    }
