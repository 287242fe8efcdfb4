"""`toolbank show`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.commands.options import RunArgument, echo


def show(
    run: RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|TOOL",
            help="The id of a query, the number of an attempt, or the name of a tool.",
        ),
    ] = None,
) -> None:
    """Show how the attempts of a run ended, all prompts and replies of one, or a tool."""
    from toolbank.commands.show_run import show_one, show_outcomes

    echo(show_outcomes(run) if name is None else show_one(run, name))
