"""What the calls of a run came to, as the report's tables show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolbank.report.numbers import Bar

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class StepCalls:
    """The calls of one step, as bank.json and judge.json have them; times in seconds."""

    replies: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    dollars: _Amount | None
    failed_tries: dict[str, _Count]
    latency_s: dict[str, _Amount]


@dataclass(frozen=True)
class Calls:
    """The calls of a run by step, all of them together, and the tries that failed by reason.

    `per_query` are the calls, tokens and dollars that one accepted query took; `unpriced` are
    the parts of the recipe, generate and judge, whose cost is unknown.
    """

    steps: Mapping[str, StepCalls]
    total: StepCalls
    failed_tries: tuple[Bar, ...]
    per_query: tuple[float, float, float | None] | None
    unpriced: tuple[str, ...]

    @property
    def were_of_a_model(self) -> bool:
        """Whether any of them cost tokens or took measured time."""
        return any(
            one.prompt_tokens or one.completion_tokens or any(one.latency_s.values())
            for one in self.steps.values()
        )


def add_up_calls(
    generation: Mapping[str, StepCalls],
    judge: Mapping[str, StepCalls],
    accepted: int,
) -> Calls | None:
    """The calls of bank.json and judge.json in one table; None where there were none."""
    steps = {**generation, **judge}
    if not steps:
        return None
    total = _add_up(steps.values())
    failed = sorted(total.failed_tries.items(), key=lambda one: (-one[1], one))
    tries = total.replies + sum(total.failed_tries.values())
    sections = {"generate": generation, "judge": judge}
    return Calls(
        steps,
        total,
        tuple(Bar(reason, count, count / tries) for reason, count in failed),
        _per_query(generation, accepted),
        unpriced=tuple(
            section
            for section, calls in sections.items()
            if any(one.dollars is None and one.replies for one in calls.values())
        ),
    )


def _per_query(
    generation: Mapping[str, StepCalls], accepted: int
) -> tuple[float, float, float | None] | None:
    if not generation or not accepted:
        return None
    calls = _add_up(generation.values())
    tokens = calls.prompt_tokens + calls.completion_tokens
    dollars = None if calls.dollars is None else calls.dollars / accepted
    return calls.replies / accepted, tokens / accepted, dollars


def _add_up(steps: Iterable[StepCalls]) -> StepCalls:
    steps = list(steps)
    costs = [one.dollars for one in steps if one.replies]
    known = [dollars for dollars in costs if dollars is not None]
    failed: Counter[str] = Counter()
    for one in steps:
        failed.update(one.failed_tries)
    return StepCalls(
        sum(one.replies for one in steps),
        sum(one.prompt_tokens for one in steps),
        sum(one.completion_tokens for one in steps),
        sum(known) if len(known) == len(costs) else None,
        failed,
        {},
    )
