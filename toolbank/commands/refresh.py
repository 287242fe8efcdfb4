"""`toolbank refresh`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from toolbank.commands.options import RunArgument, echo
from toolbank.commands.refresh_summary import describe, summarise
from toolbank.run.assets import using_assets
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run


def refresh(
    run: RunArgument,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would change, and change nothing."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object in place of text.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Take what the sources give as it is, where one fails or has lost over half of "
            "its tools.",
        ),
    ] = False,
) -> None:
    """Read the sources of a run again, and say what changed; call no model."""
    refreshed = refresh_run(run, dry_run=dry_run, force=force)
    with using_assets(load_recipe(str(run)), refreshed.folder):
        if as_json:
            typer.echo(json.dumps(summarise(refreshed), ensure_ascii=False))
        else:
            echo("\n".join(describe(refreshed)))
