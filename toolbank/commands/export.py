"""`toolbank export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import RunArgument, echo
from toolbank.datasets.export import TOOL_FORMATS, export_folder
from toolbank.run.folder import open_run
from toolbank.run.refresh import refuse_outdated


class ExportFormat(StrEnum):
    """What `toolbank export` can write."""

    datasets = "datasets"
    jsonl = "jsonl"
    toolbank = "toolbank"
    functions = "functions"
    anthropic = "anthropic"
    gemini = "gemini"
    mcp = "mcp"


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write to.")],
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format", metavar="|".join(ExportFormat), help="How the bank is written."
        ),
    ] = ExportFormat.datasets,
) -> None:
    """Write a run's bank in another format."""
    folder = open_run(run)
    if form.value not in TOOL_FORMATS:
        refuse_outdated(folder)
    for path in export_folder(folder.bank, form.value, out):
        echo(f"Wrote {path}")
