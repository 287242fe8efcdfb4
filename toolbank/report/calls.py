"""What the calls of a run came to, as the report's tables show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolbank.llm.accounts import SearchCalls, StepCalls, add_up_calls
from toolbank.report.numbers import Bar


@dataclass(frozen=True)
class Calls:
    """The calls of a run by step, all of them together, and the tries that failed by reason.

    `per_query` are the calls, tokens and dollars that one accepted query took; `unpriced` are
    the parts of the recipe, such as generate and judge, whose cost is unknown.
    """

    steps: Mapping[str, StepCalls]
    total: StepCalls
    failed_tries: tuple[Bar, ...]
    per_query: tuple[float, float, float | None] | None
    unpriced: tuple[str, ...]

    @property
    def were_of_a_model(self) -> bool:
        """Whether any of them cost tokens or took measured time."""
        return any(map(_is_of_a_model, self.steps.values()))


def summarise_calls(
    sections: Mapping[str, Mapping[str, StepCalls]], accepted: int
) -> Calls | None:
    """The calls of each part of the recipe in one table; None where there were none."""
    steps = {step: calls for part in sections.values() for step, calls in part.items()}
    if not steps:
        return None
    total = add_up_calls(steps.values())
    failed = sorted(total.failed_tries.items(), key=lambda one: (-one[1], one))
    tries = total.replies + sum(total.failed_tries.values())
    return Calls(
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
    """The calls of retrievers, by the part of the recipe they are of and by label."""
    parts: dict[str, dict[str, StepCalls]] = {}
    for label, one in searches.items():
        calls = add_up_calls(one.calls.values())
        parts.setdefault(one.section, {})[f"retriever {label}"] = calls
    return parts


def _is_of_a_model(calls: StepCalls) -> bool:
    """Whether calls cost tokens or took measured time."""
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
