"""`toolbank evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import AllOption, OverwriteOption, RunArgument, echo


def evaluate(
    run: RunArgument,
    on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A labelled JSONL file (query, tools a line); repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the records here as JSON."),
    ] = None,
    overwrite: OverwriteOption = False,
    everything: AllOption = False,
) -> None:
    """Evaluate a finished run's retrievers on labelled requests, or on its recipe's sets."""
    from toolbank.commands.evaluate_run import evaluate_run

    echo(evaluate_run(run, on or [], out, overwrite=overwrite, everything=everything))
