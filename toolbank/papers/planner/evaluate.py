"""Evaluate a planner on the plans of a bank's test queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.papers.planner.config import PlannerSetting
from toolbank.papers.planner.language_model import Speaker
from toolbank.papers.planner.plans import (
    CandidateSampler,
    PlanStepExample,
    RequestPlan,
    Situation,
    read_tool,
)
from toolbank.retrievers.base import Retriever
from toolbank.system.numbers import unsigned

METRICS = ("exact_match", "rouge_lsum", "tool_accuracy", "tool_hallucination")
_WORD = re.compile(r"[a-z0-9]+")
_RESAMPLES = 1000


@dataclass(frozen=True)
class Prediction:
    """What a planner said for an example, and whether its prompt was cut to fit."""

    text: str
    is_cut: bool = False


@dataclass(frozen=True)
class Scores:
    """Means over steps, with 95 % intervals by resampling plans.

    All are shares, but for `rouge_lsum`, the mean of F1s; `prompts_cut` is the share of prompts
    that were cut to fit.
    """

    steps: int
    exact_match: float
    rouge_lsum: float
    tool_accuracy: float
    tool_hallucination: float
    prompts_cut: float
    intervals: dict[str, tuple[float, float]]


def rouge_lsum(said: str, gold: str) -> float:
    """F1 by the longest common subsequence of words (Lin 2004), of texts of one line each.

    With one line, ROUGE-Lsum is ROUGE-L. Words are runs of ASCII letters and digits in lower case,
    not stemmed, as the package rouge-score has it. 0 where one of the two has no word.
    """
    saids, golds = (_WORD.findall(text.lower()) for text in (said, gold))
    if not saids or not golds:
        return 0.0
    lengths = [0] * (len(saids) + 1)
    for word in golds:
        before = lengths
        lengths = [0]
        for place, other in enumerate(saids):
            longer = before[place] + 1 if word == other else before[place + 1]
            lengths.append(max(lengths[-1], longer))
    return 2 * lengths[-1] / (len(saids) + len(golds))


def score(
    examples: Sequence[PlanStepExample],
    predictions: Sequence[Prediction],
    tools: Collection[str],
) -> NDArray[np.float64]:
    """The four METRICS and whether the prompt was cut, for each example [n, 5].

    A tool is right that is the example's; it is hallucinated where no tool has its name.
    """
    rows = []
    for example, prediction in zip(examples, predictions, strict=True):
        said, gold = " ".join(prediction.text.split()), example.step.text
        tool = read_tool(said)
        rows.append(
            (
                said == gold,
                rouge_lsum(said, gold),
                tool == example.step.tool,
                tool != "" and tool not in tools,
                prediction.is_cut,
            )
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), 5)


def summarise(
    examples: Sequence[PlanStepExample], values: NDArray[np.float64], seed: int
) -> Scores:
    """The means of some examples' scores [n, 5], n > 0; plans are drawn with replacement."""
    places = {plan: i for i, plan in enumerate({e.plan.id: 0 for e in examples})}
    of = np.array([places[example.plan.id] for example in examples])
    sums = np.zeros((len(places), values.shape[1]))
    np.add.at(sums, of, values)
    sizes = np.bincount(of, minlength=len(places))
    random = np.random.default_rng(unsigned(seed))
    even = np.full(len(places), 1 / len(places))
    drawn = random.multinomial(len(places), even, size=_RESAMPLES)
    means = drawn @ sums / (drawn @ sizes)[:, None]
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    found = dict(zip((*METRICS, "prompts_cut"), values.mean(axis=0), strict=True))
    intervals = {
        name: (float(low[i]), float(high[i])) for i, name in enumerate(METRICS)
    }
    return Scores(
        len(examples),
        **{name: float(value) for name, value in found.items()},
        intervals=intervals,
    )


def describe(
    examples: Sequence[PlanStepExample], values: NDArray[np.float64], seed: int
) -> dict[str, Any]:
    """Scores of all examples, and by the number of the step and of the plan's steps, as JSON."""

    def group(keys: Sequence[int]) -> dict[str, Any]:
        found = {}
        for key in sorted(set(keys)):
            rows = [row for row, own in enumerate(keys) if own == key]
            part = summarise([examples[row] for row in rows], values[rows], seed)
            found[str(key)] = asdict(part)
        return found

    return {
        **asdict(summarise(examples, values, seed)),
        "by_step": group([example.number + 1 for example in examples]),
        "by_plan_length": group([len(example.plan.steps) for example in examples]),
    }


_HEADS = ("EM", "ROUGE-Lsum", "tool accuracy", "hallucination", "cut", "first tool")


@dataclass(frozen=True)
class Evaluated:
    """A setting's figures as JSON, and what was said for each example."""

    figures: dict[str, Any]
    said: list[dict[str, Any]]


def show(
    examples: Sequence[PlanStepExample],
    chosen: Sequence[Sequence[str]],
    candidates: CandidateSampler,
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
    examples: Sequence[PlanStepExample],
    candidates: CandidateSampler,
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
    candidates: CandidateSampler,
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
        example = PlanStepExample(RequestPlan("request", query, tuple(steps)), number)
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


def _first(names: Sequence[str], example: PlanStepExample, *, history: bool) -> str:
    used = {step.tool for step in example.history} if history else set()
    return next((name for name in names if name not in used), "")


def _cell(value: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{100 * value:.1f} ({100 * low:.1f}-{100 * high:.1f})"
