"""How well steps were said, and how sure the figures are."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.planner.plans import Example, read_tool
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
    examples: Sequence[Example],
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
    examples: Sequence[Example], values: NDArray[np.float64], seed: int
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
    examples: Sequence[Example], values: NDArray[np.float64], seed: int
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
