"""The tables of the report on counts, calls and verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Share
from toolbank.bank.records import Query
from toolbank.llm.accounts import SearchCalls, StepCalls, add_up_calls
from toolbank.requests.verify.agreement import GraderAgreement
from toolbank.requests.verify.holes import HoleFigures

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class CheckFindings:
    """How many labels and requests a check found, and how often each tool."""

    labels: int
    requests: int
    tools: dict[str, int]


@dataclass(frozen=True)
class FirstLabelAgreement:
    """How grades agree with first labels; see `measure_agreement`."""

    requests: int
    aside: int
    same: int
    labels: int
    confirmed: int
    alternative: int
    refuted: int
    added: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class GradeCounts:
    """How many requests have verified labels, and how many labels have each grade."""

    requests: int
    needed: int
    alternative: int
    aside: int


@dataclass(frozen=True)
class GraderFigures:
    """How many requests a grader graded, for how many its grades are used, and how they agree."""

    kind: str
    source: str
    requests: int
    used: int
    agreement: FirstLabelAgreement


@dataclass(frozen=True)
class MissingGrades:
    """What became of the requests that no tool should fit, by their grades."""

    queries: int
    nothing_fits: int
    a_tool_fits: int
    not_graded: int
    in_no_split: int


@dataclass(frozen=True)
class Verification:
    """verify.json; `graders` is empty in files of version 0.7.0.

    `candidates` are how many requests have candidates, and their mean number.
    """

    engine: str
    candidates: dict[str, float]
    findings: dict[str, CheckFindings]
    counts: GradeCounts
    calls: dict[str, StepCalls]
    model: str = ""
    not_graded: list[dict[str, str]] = field(default_factory=list)
    agreement: FirstLabelAgreement | None = None
    graders: list[GraderFigures] = field(default_factory=list)
    people_and_models: FirstLabelAgreement | None = None
    unused: dict[str, int] = field(default_factory=dict)
    rates: dict[str, Share] = field(default_factory=dict)
    open: list[dict[str, Any]] = field(default_factory=list)
    kappa: GraderAgreement | None = None
    holes: HoleFigures | None = None
    missing: MissingGrades | None = None

    def describe(self) -> list[str]:
        """Describe the agreement of graders and the hole check, a sentence each."""
        found = list(self.kappa.describe()) if self.kappa else []
        return [*found, *([self.holes.describe()] if self.holes else [])]

    @property
    def ungraded(self) -> int:
        """The number of requests for which nobody's grade counts, though a model was asked."""
        rows = (one for one in self.not_graded if "instead" not in one)
        return len({one["query"] for one in rows})

    def name_graders(self) -> list[str]:
        """Name the graders, such as "the model gpt-4.1"; else the engine."""
        named = [f"the {one.kind} {one.source}" for one in self.graders]
        return named or [" ".join(filter(None, (self.engine, self.model)))]


def sample_changed(bank: Bank, n: int, seed: int) -> list[dict[str, Any]]:
    """Sample up to n requests whose verified labels differ from the first ones."""
    changed = [
        (query, bank.verified[query.id])
        for query in bank.queries
        if query.id in bank.verified
        and set(bank.verified[query.id].needed) != set(query.tools)
    ]
    return [
        {
            "query": query,
            "needed": [
                (name, verified.alternatives.get(name, ())) for name in verified.needed
            ],
            "aside": verified.aside,
        }
        for query, verified in Random(f"{seed}:report:verified").sample(
            changed, min(n, len(changed))
        )
    ]


_MOST_USES = 10
_OUTCOMES = ("accepted", "declined", "rejected", "failed")


@dataclass(frozen=True)
class Bar:
    """A count with its label; `share` is its part of the total, from 0 to 1."""

    label: str
    count: int
    share: float
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolUses:
    """How queries use the tools; `uses` counts queries by position in the bank's tools."""

    uses: tuple[int, ...]
    histogram: tuple[Bar, ...]

    @property
    def used(self) -> int:
        """The number of tools with at least one query."""
        return sum(count > 0 for count in self.uses)


def count_tools(queries: Sequence[Query]) -> list[Bar]:
    """Count queries by their number of tools, including gaps."""
    return _make_histogram([len(query.tools) for query in queries])


def cover(bank: Bank) -> ToolUses:
    """Count the queries of each tool; an alias counts for its tool."""
    counts = Counter(
        position
        for query in bank.queries
        for position in {bank.index[name] for name in query.tools if name in bank.index}
    )
    uses = tuple(counts[position] for position in range(len(bank.tools)))
    return ToolUses(uses, tuple(_make_histogram(uses, most=_MOST_USES)))


def follow_attempts(
    attempts: pl.DataFrame, examples: Mapping[str, Sequence[str]]
) -> list[Bar]:
    """Count the outcomes of attempts: accepted first, then every reason, the largest first.

    `examples` are details of some attempts by reason, or by outcome without a reason.
    """
    found: Counter[tuple[str, str]] = Counter()
    for outcome, reason, count in attempts.group_by("outcome", "reason").len().rows():
        gives_reason = outcome in ("rejected", "failed")
        found[outcome, reason if gives_reason else outcome] += count
    order = {outcome: place for place, outcome in enumerate(_OUTCOMES)}
    rows = sorted(found.items(), key=lambda row: (order[row[0][0]], -row[1], row[0]))
    bars = []
    for (outcome, reason), count in rows:
        label = outcome if outcome == reason else f"{outcome}: {reason}"
        if outcome == "declined":
            label = "declined by the writer"
        shown = tuple(examples.get(reason, ()))
        bars.append(Bar(label, count, count / attempts.height, shown))
    return bars


def count_endings(attempts: pl.DataFrame) -> list[tuple[str, int]]:
    """Count declined, rejected and failed attempts."""
    counts = dict(attempts["outcome"].value_counts().iter_rows())
    return [(name, counts.get(name, 0)) for name in _OUTCOMES[1:]]


def count_splits(queries: Sequence[Query]) -> dict[str, int]:
    """Count queries by split, with "none" for no split; empty splits are skipped."""
    counts = Counter(query.split or "none" for query in queries)
    return {
        name: counts[name]
        for name in ("train", "validation", "test", "none")
        if name in counts
    }


def sample_queries(queries: Sequence[Query], n: int, seed: int) -> list[Query]:
    """Sample up to n queries, in the order of the bank."""
    chosen = Random(f"{seed}:report").sample(range(len(queries)), min(n, len(queries)))
    return [queries[position] for position in sorted(chosen)]


def _make_histogram(numbers: Sequence[int], most: int | None = None) -> list[Bar]:
    """Count each number, including gaps; numbers from `most` on share a bar."""
    counts = Counter(n if most is None else min(n, most) for n in numbers)
    first = 0 if most else min(counts, default=0)
    return [
        Bar(f"{n}+" if n == most else str(n), counts[n], counts[n] / len(numbers))
        for n in range(first, max(counts, default=-1) + 1)
    ]


@dataclass(frozen=True)
class CallTable:
    """The calls of a run by step and in total, and the failed tries by reason.

    `per_query` has the calls, tokens and dollars per accepted query; `unpriced` are the parts of
    the recipe, such as generate and judge, with unknown cost.
    """

    steps: Mapping[str, StepCalls]
    total: StepCalls
    failed_tries: tuple[Bar, ...]
    per_query: tuple[float, float, float | None] | None
    unpriced: tuple[str, ...]

    @property
    def were_of_a_model(self) -> bool:
        """Whether any call was one of a model."""
        return any(map(_is_of_a_model, self.steps.values()))


def summarise_calls(
    sections: Mapping[str, Mapping[str, StepCalls]], accepted: int
) -> CallTable | None:
    """Put the calls of each part of the recipe in one table; None if there are none."""
    steps = {step: calls for part in sections.values() for step, calls in part.items()}
    if not steps:
        return None
    total = add_up_calls(steps.values())
    failed = sorted(total.failed_tries.items(), key=lambda one: (-one[1], one))
    tries = total.replies + sum(total.failed_tries.values())
    return CallTable(
        steps,
        total,
        tuple(Bar(reason, count, count / tries) for reason, count in failed),
        _per_query(sections["generate"], accepted),
        unpriced=tuple(
            section
            for section, calls in sections.items()
            if any(
                one.dollars is None and one.replies and _is_of_a_model(one)
                for one in calls.values()
            )
        ),
    )


def part_searches(
    searches: Mapping[str, SearchCalls],
) -> dict[str, dict[str, StepCalls]]:
    """Group the calls of retrievers by the part of the recipe and by label."""
    parts: dict[str, dict[str, StepCalls]] = {}
    for label, one in searches.items():
        calls = add_up_calls(one.calls.values())
        parts.setdefault(one.section, {})[f"retriever {label}"] = calls
    return parts


def _is_of_a_model(calls: StepCalls) -> bool:
    """Check whether calls used tokens or took measured time."""
    measured = any(calls.latency_s.values())
    return bool(calls.prompt_tokens or calls.completion_tokens or measured)


def _per_query(
    generation: Mapping[str, StepCalls], accepted: int
) -> tuple[float, float, float | None] | None:
    if not generation or not accepted:
        return None
    calls = add_up_calls(generation.values())
    tokens = calls.prompt_tokens + calls.completion_tokens
    dollars = None if calls.dollars is None else calls.dollars / accepted
    return calls.replies / accepted, tokens / accepted, dollars
