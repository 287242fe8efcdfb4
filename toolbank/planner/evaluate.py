"""The settings of a planner on the plans of a bank's test queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.planner.candidates import Candidates
from toolbank.planner.config import PlannerSetting
from toolbank.planner.metrics import METRICS, Prediction, describe, score
from toolbank.planner.plans import Example, Plan
from toolbank.planner.prompt import Situation
from toolbank.planner.speaker import Speaker
from toolbank.retrievers.base import Retriever

_HEADS = ("EM", "ROUGE-Lsum", "tool accuracy", "hallucination", "cut", "first tool")


@dataclass(frozen=True)
class Evaluated:
    """A setting's figures as JSON, and what was said for each example."""

    figures: dict[str, Any]
    said: list[dict[str, Any]]


def show(
    examples: Sequence[Example],
    chosen: Sequence[Sequence[str]],
    candidates: Candidates,
    *,
    history: bool,
) -> list[Situation]:
    """What a prompt shows of each example: tools in an order of the seed, the steps before."""
    return [
        Situation(
            example.plan.query,
            tuple(candidates.shuffle(names, example)),
            tuple(step.text for step in example.history) if history else (),
        )
        for example, names in zip(examples, chosen, strict=True)
    ]


def evaluate_setting(
    setting: PlannerSetting,
    examples: Sequence[Example],
    candidates: Candidates,
    retrievers: Mapping[str, Retriever],
    speaker: Speaker,
) -> Evaluated:
    """Have each step said with the right steps before it shown, and score it.

    `first_candidate` is what a planner has that always calls the first tool of its candidates,
    and where it sees the steps before, the first that they didn't call.
    """
    chosen = candidates.choose(
        setting.test, examples, retrievers.get(setting.test), stepwise=setting.stepwise
    )
    situations = show(examples, chosen, candidates, history=setting.history)
    said = speaker.say(situations)
    tools = candidates.bank.index
    seed = candidates.seed
    predictions = [Prediction(one.text, one.is_cut) for one in said]
    scores = describe(examples, score(examples, predictions, tools), seed)
    floor = [
        Prediction(f"Call {_first(names, example, history=setting.history)}")
        for names, example in zip(chosen, examples, strict=True)
    ]
    base = describe(examples, score(examples, floor, tools), seed)
    offered = sum(
        example.step.tool in names
        for names, example in zip(chosen, examples, strict=True)
    )
    figures = {
        "setting": setting.label,
        **setting.model_dump(mode="json", exclude={"name"}),
        "model": setting.model,
        **scores,
        "offered": offered / len(examples),
        "first_candidate": {
            "tool_accuracy": base["tool_accuracy"],
            "interval": base["intervals"]["tool_accuracy"],
        },
    }
    rows = [
        {
            "id": example.plan.id,
            "step": example.number + 1,
            "tools": situation.tools,
            "gold": example.step.text,
            "said": one.text,
            "last": one.is_last,
        }
        for example, situation, one in zip(examples, situations, said, strict=True)
    ]
    return Evaluated(figures, rows)


def format_planner(figures: Sequence[Mapping[str, Any]]) -> str:
    """The paper's table 2, as text: a row a setting, in percent but for ROUGE, with intervals."""
    width = max(len(row["setting"]) for row in figures)
    lines = ["  ".join([" " * width, *(f"{head:>19}" for head in _HEADS)])]
    for row in figures:
        cells = [_cell(row[name], row["intervals"][name]) for name in METRICS]
        floor = row["first_candidate"]
        cells += [f"{100 * row['prompts_cut']:.1f}"]
        cells += [_cell(floor["tool_accuracy"], floor["interval"])]
        cells = [f"{cell:>19}" for cell in cells]
        lines.append("  ".join([f"{row['setting']:<{width}}", *cells]))
    return "\n".join(lines)


def plan_request(
    query: str,
    setting: PlannerSetting,
    candidates: Candidates,
    retriever: Retriever | None,
    speaker: Speaker,
    most: int,
    read: Callable[[str], Any],
) -> list[Any]:
    """Plan a request step by step, each by those planned before it.

    It ends with the step that the model says is the last, before one that `read` makes nothing of
    or that was said already, and after `most` steps.
    """
    steps: list[Any] = []
    for number in range(most):
        # The example's own step isn't looked at: nothing is known of it.
        example = Example(Plan("request", query, tuple(steps)), number)
        chosen = candidates.choose(
            setting.test, [example], retriever, stepwise=setting.stepwise
        )
        [said] = speaker.say(
            show([example], chosen, candidates, history=setting.history)
        )
        step = read(said.text)
        if step is None or step in steps:
            break
        steps.append(step)
        if said.is_last:
            break
    return steps


def _first(names: Sequence[str], example: Example, *, history: bool) -> str:
    used = {step.tool for step in example.history} if history else set()
    return next((name for name in names if name not in used), "")


def _cell(value: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{100 * value:.1f} ({100 * low:.1f}-{100 * high:.1f})"
