"""Plan a sweep: its runs, and the trainings and calls that each adds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolbank.config.base import shape
from toolbank.retrievers.kind import plan_fits, with_needs
from toolbank.run.plan import PlannedRun, planning
from toolbank.system.numbers import count
from toolbank.system.terminal import align

if TYPE_CHECKING:
    from toolbank.run.recipe import Recipe
    from toolbank.run.sweep import RecipeSweep

# Keys that shape no call of the stages that make the bank; `split` does by withheld tools.
_NOT_OF_CALLS = ("retrievers", "baselines", "labels", "evaluate", "report", "planner")


def describe_sweep_plan(sweep: RecipeSweep) -> str:
    """Describe the runs of a sweep, and once what several of them share.

    Raises:
        InputError: a run's recipe cannot be run.
        ToolbankError: a journal is damaged.
    """
    rows = [("run", "stages to run", "trainings", "steps")]
    calls: dict[str, tuple[list[str], list[str]]] = {}
    fitted: set[str] = set()
    trainings = steps = shared = 0
    for run in sweep.runs:
        with planning(run.recipe, run.folder.path) as planned:
            new, n_steps, again = _plan_trainings(planned, fitted)
            trainings, steps, shared = trainings + new, steps + n_steps, shared + again
            todo = f"{len(planned.todo)} of {len(planned.stages)}"
            name = run.folder.path.name
            rows.append((name, todo, f"{new:,}", f"{n_steps:,}"))
            for key, paragraph in _plan_calls(planned):
                calls.setdefault(key, (paragraph, []))[1].append(name)
    lines = [f"{sweep.name}, in {sweep.path}: {count(len(sweep.runs), 'run')}"]
    lines += align(rows, right=(1, 2, 3), indent=2)
    copied = f" {count(shared, 'further one')} will be copied." if shared else ""
    lines.append(
        f"  In all {count(trainings, 'training')} of about {count(steps, 'step')}.{copied}"
    )
    for paragraph, names in calls.values():
        others = f", and once for {len(names) - 1} more" if len(names) > 1 else ""
        lines += ["", f"For {names[0]}{others}:", *paragraph]
    if len(calls) > 1:
        lines += ["", "A request that several of these have in common is sent once."]
    return "\n".join(lines)


def _plan_calls(planned: PlannedRun) -> list[tuple[str, list[str]]]:
    """Describe the calls of the stages that make the bank; equal keys, equal calls."""
    of_calls = [
        stage for stage in planned.to_run if stage.asks_models and stage.engines
    ]
    described = _dump(planned.recipe.recipe, _NOT_OF_CALLS)
    return [
        (f"{stage.name} {described}", paragraph)
        for stage in of_calls
        if (paragraph := list(stage.plan(planned.outlook)))
    ]


def _dump(recipe: Recipe, without: tuple[str, ...]) -> str:
    content = recipe.model_dump(mode="json", exclude={*without, "seed", "bank_seed"})
    withheld = recipe.split.withhold_tools
    content["split"] = [withheld, recipe.seed] if withheld else []
    return json.dumps([content, recipe.calls_seed], sort_keys=True)


def _plan_trainings(planned: PlannedRun, fitted: set[str]) -> tuple[int, int, int]:
    """Count the trainings of a run that no run before it has, their steps, and the others.

    Adds the fits to `fitted`.
    """
    recipe = planned.recipe.recipe
    bank = [_dump(recipe, _NOT_OF_CALLS), recipe.split.shape(), recipe.labels]
    new = steps = again = 0
    for config in recipe.retrievers:
        if f"retrievers/{config.label}" not in planned.todo or not config.trainings:
            continue
        plans = list(
            plan_fits([config], recipe.retrievers, planned.outlook.bank, recipe.seed)
        )
        parts = [shape(one) for one in with_needs([config], recipe.retrievers)]
        key = json.dumps([bank, recipe.seed, config.label, parts], sort_keys=True)
        if key in fitted:
            again += len(plans)
        else:
            new, steps = new + len(plans), steps + sum(one.steps or 0 for one in plans)
        fitted.add(key)
    return new, steps, again
