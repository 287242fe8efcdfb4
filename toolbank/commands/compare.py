"""`toolbank compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import echo


def compare(
    banks: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|DIR|FILE",
            help="The folder of a run, or of a dataset of any format; or a JSONL file with the "
            "request and its tools a line. One or more.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all figures as JSON.")
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", help="By which samples are drawn.")
    ] = 0,
    encoder: Annotated[
        bool,
        typer.Option(
            "--encoder/--no-encoder",
            help="Embed requests, to tell how far apart they lie and what they are about.",
        ),
    ] = True,
) -> None:
    """Tell how good banks are, side by side: coverage, variety, wording, labels."""
    import json

    from toolbank.commands.compare_banks import format_banks, measure_banks

    found = measure_banks(banks, seed, encoder)
    if as_json:
        content = {
            "seed": seed,
            "banks": [{"name": name, **one.as_json()} for name, one in found],
        }
        typer.echo(json.dumps(content, indent=1))
    else:
        echo(format_banks(found))
