"""Rounds of requests to engines that reply later: which stages share one, and how many to expect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from toolbank.run.stage import Outcome, Stage


def run_in_rounds(
    stages: Sequence[Stage], run: Callable[[Stage], Outcome | None]
) -> dict[str, Outcome]:
    """Run stages in their order, those that do not need each other in the same round.

    After one that waits for replies, only stages that call models run, and of these such as need
    no waiting one. A stage sends its round without waiting if a later one can share it, and goes on
    when that has ended. `run` returns None for a stage that is done. The outcomes are by name; those
    that wait have `waiting`.
    """
    outcomes: dict[str, Outcome] = {}
    waiting: set[str] = set()
    todo, goes_on = list(stages), True
    while goes_on:
        again: list[Stage] = []
        blocked, goes_on = set(waiting), False
        for place, stage in enumerate(todo):
            names = {stage.kind, stage.name}
            if blocked and (not stage.asks_models or blocked & {*stage.needs}):
                again.append(stage)
                blocked |= names
                continue
            is_shared = stage.in_rounds and _has_partner(
                stage, todo[place + 1 :], blocked
            )
            sent = stage.send_only() if is_shared else stage
            if (outcome := run(sent)) is None:
                continue
            outcomes[stage.name] = outcome
            if outcome.waiting:
                blocked |= names
            if outcome.waiting and sent == stage:
                waiting |= names
            elif outcome.waiting:
                again.append(stage)
                goes_on = True
        todo = again
    return outcomes


def _has_partner(stage: Stage, others: Iterable[Stage], blocked: set[str]) -> bool:
    """Return whether a later stage can send requests in the same round."""
    needed = {*blocked, stage.kind, stage.name}
    for other in others:
        if other.in_rounds and not needed & {*other.needs} and not other.is_done:
            return True
        needed |= {other.kind, other.name} if needed & {*other.needs} else set()
    return False


def describe_rounds(stages: Iterable[Stage]) -> str:
    """Describe the rounds that stages to be run will take; "" if none replies in rounds."""
    rounds: defaultdict[int, list[str]] = defaultdict(list)
    last: dict[str, int] = {}
    for stage in stages:
        number = max((last.get(name, 0) for name in stage.needs), default=0)
        if stage.in_rounds:
            for step in stage.steps:
                number += 1
                rounds[number].append(step)
        last |= dict.fromkeys((stage.kind, stage.name), number)
    if not rounds:
        return ""
    parts = [f"{number}. {', '.join(rounds[number])}" for number in sorted(rounds)]
    return (
        f"{len(rounds)}, if enough replies pass and none is missing: {'; '.join(parts)}. Each takes "
        "as long as the provider needs for a batch."
    )
