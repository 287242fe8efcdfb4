"""`toolbank run`, the commands that run one stage, and `toolbank plan`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.commands.options import (
    AllOption,
    OutOption,
    RecipeArgument,
    ReplaceOption,
    SetOption,
    echo,
    find_folder,
)
from toolbank.run.stages import STAGES
from toolbank.run.stages.asks import AsksStage
from toolbank.run.stages.fit import FitStage
from toolbank.run.stages.generate import GenerateStage
from toolbank.run.stages.profile import ProfileStage
from toolbank.run.stages.report import ReportStage
from toolbank.run.stages.verify import VerifyStage
from toolbank.system.errors import ReplyPendingError

if TYPE_CHECKING:
    from toolbank.run.run import RunResult

    StageName = StrEnum
else:
    StageName = StrEnum("StageName", [stage.kind for stage in STAGES])

_STAGES = ", ".join(stage.kind for stage in STAGES)


def run(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    start: Annotated[
        StageName | None,
        typer.Option(
            "--from",
            metavar="STAGE",
            help="Run this stage again (or finish it, if it was stopped) and those after it: "
            f"{_STAGES}.",
        ),
    ] = None,
    until: Annotated[
        StageName | None, typer.Option(metavar="STAGE", help="Stop after this stage.")
    ] = None,
    everything: AllOption = False,
    replace: ReplaceOption = False,
) -> None:
    """Run all stages of a recipe that are not done yet."""
    run_stages(
        recipe,
        out,
        settings,
        start=start,
        until=until,
        everything=everything,
        replace=replace,
    )


def run_stages(
    name: str,
    out: Path | None,
    settings: list[str] | None,
    *,
    start: str | None = None,
    until: str | None = None,
    everything: bool = False,
    replace: bool = False,
) -> None:
    """Run a recipe's stages from `start` up to `until`, and print what came of them."""
    from toolbank.training.ranks import rank

    if rank() > 0:
        from toolbank.run.fit import take_part

        return take_part()
    from toolbank.run.fit import leading
    from toolbank.run.recipe import load_recipe
    from toolbank.run.run import run_recipe

    with leading():
        loaded = load_recipe(name, settings or ())
        result = run_recipe(
            loaded,
            find_folder(name, out, loaded.recipe.name),
            start=start,
            until=until,
            replace=replace,
        )
    return print_result(result, everything=everything)


def print_result(result: RunResult, *, everything: bool = False) -> None:
    """Print what came of a run; the command then ends with 3 if a batch is awaited."""
    from toolbank.run.result import describe_result

    echo(describe_result(result, everything=everything))
    if result.waiting:
        raise typer.Exit(ReplyPendingError.exit_code)


def asks(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Generate the bank, then its asks (requests for single tools), and stop."""
    run_stages(recipe, out, settings, until=AsksStage.kind, replace=replace)


def generate(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Collect the tools and generate queries for them, then stop."""
    run_stages(recipe, out, settings, until=GenerateStage.kind, replace=replace)


def train(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Fit the retrievers of a run on its bank."""
    run_stages(recipe, out, settings, start=FitStage.kind, until=FitStage.kind)


def verify(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Check a bank's labels, have a model grade them, then stop.

    If the recipe has no section `verify`, labels are checked without a model.
    """
    from toolbank.run.recipe import load_recipe

    given = list(settings or ())
    if load_recipe(recipe, given).recipe.verify is None:
        given.append("verify={}")
    run_stages(recipe, out, given, until=VerifyStage.kind, replace=replace)


def profile(
    recipe: RecipeArgument,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PLACE",
            exists=True,
            help="Look for copies of this set: a run, a dataset folder, or a JSONL file; "
            "repeatable.",
        ),
    ] = None,
    out: OutOption = None,
    settings: SetOption = None,
) -> None:
    """Class the requests of a run, and find copies between splits and of other sets."""
    given = list(settings or ())
    if against:
        places = [str(place) for place in against]
        given.append(f"profile.copies.against={json.dumps(places)}")
    stage = ProfileStage.kind
    run_stages(recipe, out, given, start=stage, until=stage)


def report(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Write the HTML report of a run."""
    run_stages(recipe, out, settings, start=ReportStage.kind, until=ReportStage.kind)


def plan(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Estimate the calls, cost and trainings of a run, without calling a model."""
    from toolbank.run.plan import describe_plan
    from toolbank.run.recipe import load_recipe

    loaded = load_recipe(recipe, settings or ())
    echo(describe_plan(loaded, find_folder(recipe, out, loaded.recipe.name)))
