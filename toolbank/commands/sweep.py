"""`toolbank sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import RecipeArgument, SetOption, echo
from toolbank.system.errors import ReplyPendingError


def sweep(
    recipe: RecipeArgument,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="Run with each of these values of a key, in addition to those that the recipe "
            "lists under `sweep`; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder of the runs (default: runs/NAME-sweep)."
        ),
    ] = None,
    settings: SetOption = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only list the runs, their trainings and calls."),
    ] = False,
) -> None:
    """Run a recipe with several values and seeds, and compare the runs in one table."""
    from toolbank.training.ranks import rank

    if rank() > 0:
        from toolbank.run.fit import take_part

        return take_part()
    from toolbank.run.fit import leading
    from toolbank.run.sweep import (
        describe_sweep,
        describe_unfinished,
        read_sweep,
        run_sweep,
        summarise_sweep,
    )

    found = read_sweep(recipe, out, settings or (), over or ())
    if plan:
        from toolbank.run.sweep_plan import describe_sweep_plan

        return echo(describe_sweep_plan(found))
    with leading():
        results = run_sweep(found)
    if unfinished := describe_unfinished(results):
        echo(unfinished)
        waits = any(result.waiting for result in results)
        raise typer.Exit(ReplyPendingError.exit_code if waits else 1)
    return echo(describe_sweep(summarise_sweep(found)))
