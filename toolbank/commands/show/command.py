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
            metavar="ID", help="The id of a query, or the number of an attempt."
        ),
    ] = None,
) -> None:
    """Show how the attempts of a run ended, or all prompts and replies of one."""
    from toolbank.commands.show.show import show_attempt, show_outcomes

    echo(show_outcomes(run) if name is None else show_attempt(run, name))
