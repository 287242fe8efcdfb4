"""What the commands of all families take, and how they print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import echo
from toolbank.experiments.result import Result
from toolbank.system.files import json_text

DataOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder of the paper's data.")
]
OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder for what comes out.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the figures as JSON, not as tables.")
]


def leave(result: Result, out: Path, as_json: bool) -> None:
    """Write what an experiment found to its folder, and print it."""
    result.write(out)
    echo(json_text(result.record).rstrip() if as_json else result.text)
