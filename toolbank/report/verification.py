"""What a verification found, as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from toolbank.llm.accounts import StepCalls

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.bank.records import Query

CHECKS = {
    "deprecated": "the tool is deprecated",
    "alias": "the tool is another name of one",
    "unspoken": "the explanation has no word of the tool's reference",
    "round-trip": "not found among 50 by Tool2Vec fitted without the request",
}


@dataclass(frozen=True)
class Counted:
    """How many labels and requests a check found, and how often each tool."""

    labels: int
    requests: int
    tools: dict[str, int]


@dataclass(frozen=True)
class Agreement:
    """How grades agree with first labels, as of `measure_agreement`."""

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
class Candidates:
    """Of how many requests candidates were pooled, and how many a request has."""

    requests: int
    mean: float


@dataclass(frozen=True)
class Counts:
    """How many requests have verified labels, and of which grade these are."""

    requests: int
    needed: int
    alternative: int
    aside: int


@dataclass(frozen=True)
class GraderFigures:
    """How many requests a source graded, of how many its grades count, and how these agree."""

    kind: str
    source: str
    requests: int
    used: int
    agreement: Agreement


@dataclass(frozen=True)
class Verification:
    """verify.json; `graders` is empty in those of version 0.7.0."""

    engine: str
    candidates: Candidates
    findings: dict[str, Counted]
    counts: Counts
    calls: dict[str, StepCalls]
    model: str = ""
    not_graded: list[dict[str, str]] = field(default_factory=list)
    agreement: Agreement | None = None
    graders: list[GraderFigures] = field(default_factory=list)
    people_and_models: Agreement | None = None
    unused: dict[str, int] = field(default_factory=dict)

    def name_graders(self) -> list[str]:
        """Who graded, such as "the model gpt-4.1"; else the engine."""
        named = [f"the {one.kind} {one.source}" for one in self.graders]
        return named or [" ".join(filter(None, (self.engine, self.model)))]


def sample_changed(bank: Bank, n: int, seed: int) -> list[dict[str, Any]]:
    """Up to n requests by the seed whose verified labels are not their first ones."""
    changed = [query for query in bank.queries if _is_changed(bank, query)]
    chosen = Random(f"{seed}:report:verified").sample(changed, min(n, len(changed)))
    return [_describe(bank, query) for query in chosen]


def _is_changed(bank: Bank, query: Query) -> bool:
    verified = bank.verified.get(query.id)
    return verified is not None and set(verified.needed) != set(query.tools)


def _describe(bank: Bank, query: Query) -> dict[str, Any]:
    verified = bank.verified[query.id]
    needed: list[tuple[str, Sequence[str]]] = [
        (name, verified.alternatives.get(name, ())) for name in verified.needed
    ]
    return {"query": query, "needed": needed, "aside": verified.aside}
