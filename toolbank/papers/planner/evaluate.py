"""Use the planner of a run, and evaluate it on the plans of the test queries."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.llm.engines import find_engine
from toolbank.papers.planner.config import PlannerConfig, PlannerSetting
from toolbank.papers.planner.language_model import (
    Prediction,
    StepPredictor,
    generate_steps,
    load_planner,
    request_steps,
)
from toolbank.papers.planner.plans import (
    CandidateSampler,
    PlannerPrompts,
    PlanStep,
    PlanStepExample,
    RequestPlan,
    read_examples,
    read_step,
    read_tool,
)
from toolbank.papers.planner.stage import MADE, PlannerStage
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe
from toolbank.run.stages.fit import FitStage
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json, write_text
from toolbank.system.numbers import unsigned
from toolbank.system.terminal import advise_to_finish, align

METRICS = ("exact_match", "rouge_lsum", "tool_accuracy", "tool_hallucination")
_WORD = re.compile(r"[a-z0-9]+")
_RESAMPLES = 1000


def rouge_lsum(said: str, gold: str) -> float:
    """Compute the F1 of the longest common subsequence of words (Lin 2004) of one-line texts.

    For one line, ROUGE-Lsum is ROUGE-L. As in the package rouge-score, words are runs of ASCII
    letters and digits in lower case, without stemming. The result is 0 if a text has no word.
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
    """Compute the four METRICS and whether the prompt was cut, for each example [n, 5].

    A tool is right if it is the example's, and hallucinated if no tool has its name.
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
) -> dict[str, Any]:
    """Average the values of steps [n, 5], n > 0, with 95 % bootstrap intervals over plans.

    `rouge_lsum` is the mean of F1s; the others are shares. `prompts_cut` is the share of prompts
    that were cut to fit.
    """
    places = {plan: i for i, plan in enumerate({e.plan.id: 0 for e in examples})}
    of = np.array([places[example.plan.id] for example in examples])
    sums = np.zeros((len(places), values.shape[1]))
    np.add.at(sums, of, values)
    sizes = np.bincount(of, minlength=len(places))
    random = np.random.default_rng(unsigned(seed))
    even = np.full(len(places), 1 / len(places))
    drawn = random.multinomial(len(places), even, size=_RESAMPLES)
    means = drawn @ sums / (drawn @ sizes)[:, None]
    ends = np.quantile(means, (0.025, 0.975), axis=0).T.tolist()
    names = (*METRICS, "prompts_cut")
    return {
        "steps": len(examples),
        **dict(zip(names, values.mean(axis=0).tolist(), strict=True)),
        "intervals": {name: tuple(ends[i]) for i, name in enumerate(METRICS)},
    }


def describe(
    examples: Sequence[PlanStepExample], values: NDArray[np.float64], seed: int
) -> dict[str, Any]:
    """Summarize all examples, and by number of the step and of steps in the plan, as JSON."""

    def group(keys: Sequence[int]) -> dict[str, Any]:
        found = {}
        for key in sorted(set(keys)):
            rows = [row for row, own in enumerate(keys) if own == key]
            chosen = [examples[row] for row in rows]
            found[str(key)] = summarise(chosen, values[rows], seed)
        return found

    return {
        **summarise(examples, values, seed),
        "by_step": group([example.number + 1 for example in examples]),
        "by_plan_length": group([len(example.plan.steps) for example in examples]),
    }


_HEADS = ("EM", "ROUGE-Lsum", "tool accuracy", "hallucination", "cut", "first tool")


def evaluate_setting(
    setting: PlannerSetting,
    examples: Sequence[PlanStepExample],
    candidates: CandidateSampler,
    speaker: StepPredictor,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Predict each step given the true steps before it: figures and predictions, as JSON.

    `first_candidate` is a baseline that always calls its first candidate; with history, the first
    one that no step before called.
    """
    chosen = candidates.choose(setting.test, examples, stepwise=setting.stepwise)
    situations = candidates.show(examples, chosen, history=setting.history)
    distinct = list(dict.fromkeys(situations))
    answered = dict(zip(distinct, speaker(distinct), strict=True))
    said = [answered[situation] for situation in situations]
    tools = candidates.bank.index
    seed = candidates.seed
    scores = describe(examples, score(examples, said, tools), seed)
    floor = [
        Prediction(f"Call {_first(names, example, history=setting.history)}")
        for names, example in zip(chosen, examples, strict=True)
    ]
    base = summarise(examples, score(examples, floor, tools), seed)
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
    return figures, rows


def format_planner(figures: Sequence[Mapping[str, Any]]) -> str:
    """Format table 2 of the paper: a row per setting, in percent (ROUGE x 100), with intervals."""
    rows = [["", *_HEADS]]
    for row in figures:
        floor = row["first_candidate"]
        rows.append(
            [
                row["setting"],
                *(_cell(row[name], row["intervals"][name]) for name in METRICS),
                f"{100 * row['prompts_cut']:.1f}",
                _cell(floor["tool_accuracy"], floor["interval"]),
            ]
        )
    return "\n".join(align(rows, right=range(1, len(_HEADS) + 1)))


def _first(names: Sequence[str], example: PlanStepExample, *, history: bool) -> str:
    used = {step.tool for step in example.history} if history else set()
    return next((name for name in names if name not in used), "")


def _cell(value: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{100 * value:.1f} ({100 * low:.1f}-{100 * high:.1f})"


@dataclass(frozen=True)
class RunPlanner:
    """The planner of a run, by its recipe."""

    recipe: Recipe
    folder: RunFolder
    config: PlannerConfig

    def evaluate(self) -> dict[str, Any]:
        """Evaluate all settings, and write planner.json after each.

        Raises:
            InputError: as in `prepare`, or no test query has a plan.
        """
        folder = self.folder
        candidates = self.prepare(self.config.settings)
        examples, left_out = read_examples(folder.path, candidates.bank, "test")
        models = {
            stage.setting.model: read_json(stage.target / MADE)["training"]
            for stage in PlannerStage.of(self.recipe, folder)
        }
        numbered = list(enumerate(self.config.settings, start=1))
        found, content = dict[int, dict[str, Any]](), dict[str, Any]()
        # By model, so that only one is in memory.
        for model in dict.fromkeys(setting.model for _, setting in numbered):
            of_model = [(n, one) for n, one in numbered if one.model == model]
            speaker = self.speaker(of_model[0][1], candidates)
            for number, setting in of_model:
                found[number], said = evaluate_setting(
                    setting, examples, candidates, speaker
                )
                rows = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in said]
                write_text(folder.planner / f"said-{number}.jsonl", "".join(rows))
                content = {
                    "plans": len({example.plan.id for example in examples}),
                    "lines_without_tool": left_out,
                    "models": models,
                    "settings": [found[number] for number in sorted(found)],
                }
                write_json(folder.planner_figures, content)
            # Free its memory before the next one is read.
            del speaker
        return content

    def plan(self, query: str, setting: PlannerSetting) -> list[PlanStep]:
        """Plan a request step by step, each given the steps before it.

        It ends with the step that the model marks as the last, before one that names no tool or
        repeats another, or after the maximum number of steps of the recipe.

        Raises:
            InputError: as in `prepare`.
        """
        steps: list[PlanStep] = []
        candidates = self.prepare([setting])
        speaker = self.speaker(setting, candidates)
        for n in range(self.config.steps):
            # The example's own step is unknown, and not read.
            plan = RequestPlan("request", query, tuple(steps))
            examples = [PlanStepExample(plan, n)]
            chosen = candidates.choose(
                setting.test, examples, stepwise=setting.stepwise
            )
            shown = candidates.show(examples, chosen, history=setting.history)
            [said] = speaker(shown)
            step = read_step(said.text, candidates.bank.index)
            if step is None or step in steps:
                break
            steps.append(step)
            if said.is_last:
                break
        return steps

    def prepare(self, settings: Sequence[PlannerSetting]) -> CandidateSampler:
        """Check the engine, models and retrievers of settings, and make their candidate sampler.

        Raises:
            InputError: the engine cannot be used or lacks consent, or a model or a retriever is
                missing.
        """
        if asks := self.config.ask:
            kind = find_engine(asks)
            kind.check(asks)
            kind.check_access(asks)
            require_consent(kind.sends(asks), asks.section)
        recipe, folder = self.recipe, self.folder
        models = {setting.model for setting in settings}
        for stage in PlannerStage.of(recipe, folder):
            if stage.setting.model in models and not stage.is_done:
                why = stage.explain_todo()
                lacks = f"has to be trained again: {why}" if why else "is not trained"
                raise InputError(
                    f"{stage.target}: the planner of {stage.setting.label} {lacks}. First: toolbank "
                    f"planner train {folder.path}"
                )
        labels = {label for one in settings for label in one.retrievers & {one.test}}
        for fit in FitStage.of(recipe, folder):
            if fit.config.label in labels and not fit.is_done:
                raise InputError(
                    f"{folder.path}: {fit.name} is not fitted on this bank. "
                    f"{advise_to_finish(folder.path)}"
                )
        return CandidateSampler.of_run(recipe, folder, labels)

    def speaker(
        self, setting: PlannerSetting, candidates: CandidateSampler
    ) -> StepPredictor:
        """The planner of a setting: the engine, or a trained model."""
        prompts = PlannerPrompts(candidates.bank.tools)
        if asks := self.config.ask:
            return partial(request_steps, asks, prompts)
        model = load_planner(self.folder.planner / setting.model)
        return partial(generate_steps, model, prompts, self.config)
