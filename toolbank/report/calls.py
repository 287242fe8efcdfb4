"""What the calls of a run came to, as the report's tables show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolbank.report.numbers import Bar

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_LATENCIES = ("p50", "p90", "p99", "max")


@dataclass(frozen=True)
class StageCalls:
    """The calls of one stage, as bank.json and judge.json have them; times in seconds."""

    replies: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    dollars: _Amount | None
    failed_tries: dict[str, _Count]
    latency_s: dict[str, _Amount]


@dataclass(frozen=True)
class StageRow:
    """One stage of calls, or all of them. `dollars` is None where the cost is unknown."""

    label: str
    replies: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    latencies: tuple[float | None, ...]


@dataclass(frozen=True)
class Calls:
    """The calls of a run by stage, all of them together, and the tries that failed by reason.

    `per_query` are the calls, tokens and dollars that one accepted query took; `unpriced` are
    the parts of the recipe, generate and judge, whose cost is unknown.
    """

    rows: tuple[StageRow, ...]
    total: StageRow
    failed_tries: tuple[Bar, ...]
    per_query: tuple[float, float, float | None] | None
    unpriced: tuple[str, ...]

    @property
    def were_of_a_model(self) -> bool:
        """Whether any of them cost tokens or took measured time."""
        return any(
            row.prompt_tokens or row.completion_tokens or any(row.latencies)
            for row in self.rows
        )


def add_up_calls(
    generation: Mapping[str, StageCalls],
    judge: Mapping[str, StageCalls],
    accepted: int,
) -> Calls | None:
    """The calls of bank.json and judge.json in one table; None where there were none."""
    stages = {**generation, **judge}
    if not stages:
        return None
    rows = tuple(_row(stage, calls) for stage, calls in stages.items())
    written = [row for row in rows if row.label in generation]
    failed: Counter[str] = Counter()
    for calls in stages.values():
        failed.update(calls.failed_tries)
    tries = failed.total() + sum(row.replies for row in rows)
    together = _sum("all of them", written)
    return Calls(
        rows,
        _sum("together", rows),
        tuple(
            Bar(reason, count, count / tries)
            for reason, count in sorted(failed.items(), key=lambda one: (-one[1], one))
        ),
        per_query=(
            together.replies / accepted,
            (together.prompt_tokens + together.completion_tokens) / accepted,
            None if together.dollars is None else together.dollars / accepted,
        )
        if accepted and written
        else None,
        unpriced=tuple(
            section
            for section, stages in (("generate", generation), ("judge", judge))
            if any(
                row.dollars is None and row.replies
                for row in rows
                if row.label in stages
            )
        ),
    )


def _row(stage: str, calls: StageCalls) -> StageRow:
    return StageRow(
        stage,
        calls.replies,
        calls.prompt_tokens,
        calls.completion_tokens,
        calls.dollars,
        tuple(calls.latency_s.get(name) for name in _LATENCIES),
    )


def _sum(label: str, rows: tuple[StageRow, ...] | list[StageRow]) -> StageRow:
    costs = [row.dollars for row in rows if row.replies]
    known = [dollars for dollars in costs if dollars is not None]
    return StageRow(
        label,
        sum(row.replies for row in rows),
        sum(row.prompt_tokens for row in rows),
        sum(row.completion_tokens for row in rows),
        sum(known) if len(known) == len(costs) else None,
        (None,) * len(_LATENCIES),
    )
