"""`toolbank planner train | evaluate | use`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolbank.commands.options import RunArgument, SetOption, echo
from toolbank.system.errors import InputError
from toolbank.system.terminal import advise_to_finish

if TYPE_CHECKING:
    from toolbank.papers.planner.evaluate import RunPlanner
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import RecipeFile

Action = Literal["train", "evaluate", "use"]


def planner(
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="train, evaluate, or use.")
    ],
    run: RunArgument,
    query: Annotated[
        str | None, typer.Argument(help="The request; only with the action `use`.")
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With the action `use`: the name of an item of `planner.settings`. Default: the first.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Train, evaluate and use planners that call tools step by step.

    The recipe of the run needs a section `planner`. `evaluate` writes planner.json.
    """
    from toolbank.run.assets import using_assets
    from toolbank.run.folder import open_run
    from toolbank.run.recipe import load_recipe

    if (query is None) == (action == "use"):
        problem = "takes no request. Remove it."
        if action == "use":
            problem = "which request? Write: toolbank planner use RUN QUERY"
        raise InputError(f"planner {action}: {problem}")
    if setting is not None and action != "use":
        raise InputError(
            f"--setting {setting}: for `planner use`; {action} takes all settings of the recipe."
        )
    folder = open_run(run)
    file = load_recipe(str(folder.recipe), settings or [])
    config = file.recipe.planner
    if config is None:
        raise InputError(
            f"{folder.recipe}: no `planner`. Add it to your recipe and run it again, or give it "
            "here: --set 'planner={model: {new: {}}, settings: [{test: random}]}'."
        )
    if not (folder.bank / "queries.parquet").is_file():
        raise InputError(f"{run}: no bank yet. {advise_to_finish(run)}")
    if action == "train" and config.ask:
        raise InputError(
            "planner.ask: this model plans without training. Continue with: toolbank planner "
            f"evaluate {run}"
        )
    if action == "train":
        return _train(file, folder)
    from toolbank.papers.planner.evaluate import RunPlanner

    opened = RunPlanner(file.recipe, folder, config)
    with folder.locked(), using_assets(file, folder):
        if query is None:
            return _evaluate(opened, as_json=as_json)
        return _use(opened, query, setting, as_json=as_json)


def _train(file: RecipeFile, folder: RunFolder) -> None:
    """Run the stage as `toolbank run --from planner` does, unless it is done."""
    from toolbank.papers.planner.stage import PlannerStage
    from toolbank.run.assets import using_assets
    from toolbank.run.run import run_recipe

    stages = PlannerStage.of(file.recipe, folder)
    with using_assets(file, folder):
        is_done = all(stage.is_done for stage in stages)
    if is_done:
        for stage in stages:
            echo(f"{stage.setting.model}: there already")
    else:
        kind = PlannerStage.kind
        run_recipe(file, folder.path, start=kind, until=kind)


def _evaluate(planner: RunPlanner, *, as_json: bool) -> None:
    from toolbank.papers.planner.evaluate import format_planner
    from toolbank.system.files import json_text

    content = planner.evaluate()
    figures = content["settings"]
    echo(json_text(content) if as_json else format_planner(figures))
    if not as_json:
        echo(
            f"\n{content['plans']:,} plans, {figures[0]['steps']:,} steps; "
            f"{content['lines_without_tool']:,} lines name no "
            f"tool and are skipped. In percent (ROUGE-Lsum x 100), with 95 % intervals. "
            f"Wrote {planner.folder.planner_figures}"
        )


def _use(planner: RunPlanner, query: str, name: str | None, *, as_json: bool) -> None:
    from toolbank.papers.planner.config import GOLD, RANDOM

    # The tools of a new request are unknown.
    usable = {
        one.label: one
        for one in planner.config.settings
        if one.test not in (GOLD, RANDOM)
    }
    if not usable or (name and name not in usable):
        said = ", ".join(usable) or "none"
        raise InputError(
            f"--setting {name or ''}: choose a setting whose candidates do not need the plan: "
            f"{said}."
        )
    setting = usable[name] if name else next(iter(usable.values()))
    steps = planner.plan(query, setting)
    if as_json:
        echo(json.dumps([{"tool": s.tool, "text": s.text} for s in steps], indent=2))
    else:
        for number, step in enumerate(steps, start=1):
            echo(f"{number}. {step.text}")
        if not steps:
            echo(
                f"The setting {setting.label} found no step that names a tool. Check its accuracy: "
                f"toolbank planner evaluate {planner.folder.path}"
            )
