"""`toolbank evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from toolbank.bank.bank import Bank
from toolbank.commands.options import AllOption, OverwriteOption, RunArgument, echo
from toolbank.config.explain import first_problem
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.refusals import format_refusals, list_figures
from toolbank.evaluation.sets import describe_labels, make_test_sets
from toolbank.evaluation.tables import format_details, format_notes, format_table
from toolbank.run.assets import list_inputs, using_assets
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import load_recipe
from toolbank.run.stages.evaluate import evaluate_sets, file_sets
from toolbank.run.stages.fit import FitStage
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError
from toolbank.system.files import json_text
from toolbank.system.numbers import count
from toolbank.system.outputs import check_output, write_output
from toolbank.system.terminal import advise_to_finish, command


def evaluate_run(
    path: Path,
    on: Sequence[Path],
    out: Path | None,
    *,
    overwrite: bool = False,
    everything: bool = False,
) -> str:
    """Evaluate a finished run's retrievers on labelled files.

    Without any, on its test split and on those of its recipe that are still there. Writes the
    records to `out` where it is given, with `overwrite` over a file that is there; gives the table
    and notes for people, with `everything` all tables.

    Raises:
        InputError: the run is not finished, or a file is missing or has broken lines.
    """
    folder = open_run(path)
    file = load_recipe(str(folder.recipe))
    recipe = file.recipe
    with using_assets(file, folder):
        inputs: list[Path] = []
        if out is not None:
            inputs = [*on, *list_inputs(recipe, folder, out)]
            check_output(out, inputs, overwrite=overwrite)
        stages = FitStage.of(recipe, folder)
        _require_fitted(folder, stages)
        for stage in stages:
            require_consent(stage.sends(), stage.name)
        try:
            EvaluateConfig(on=tuple(on))
        except ValidationError as error:
            raise InputError(f"--{first_problem(error)}.") from error
        bank = Bank.load(folder.bank)
        gone = [] if on else [one for one in recipe.evaluate.on if not one.is_file()]
        there = on or [one for one in recipe.evaluate.on if one not in gone]
        sets = [
            *([] if on else make_test_sets(bank)),
            *file_sets(bank, there),
        ]
        figures, differences, refusals = evaluate_sets(recipe, folder, sets)
    if out is not None:
        text = json_text(
            [asdict(figure) for figure in (*figures, *list_figures(refusals))]
        )
        write_output(out, text, inputs, overwrite=overwrite)
    blocks = (
        format_table(figures),
        format_refusals(refusals),
        format_notes([describe_labels(evaluated) for evaluated in sets]),
        "\n".join(f"{path}: not there, and so not evaluated on" for path in gone),
        format_details(figures, differences) if everything else "",
        f"Wrote {count(len(figures), 'record')} to {out}" if out else "",
    )
    return "\n\n".join(filter(None, blocks))


def _require_fitted(folder: RunFolder, stages: Sequence[FitStage]) -> None:
    again = command("run", folder.path)
    if lost := folder.explain_lost_stamps():
        raise InputError(f"{lost} by: {again}")
    for stage in stages:
        if stage.is_done:
            continue
        if harm := folder.explain_harm(stage.name):
            raise InputError(f"{harm}. Make it again: {again}")
        raise InputError(
            f"{folder.path}: {stage.name} is not fitted on this bank. "
            f"{advise_to_finish(folder.path)}"
        )


def evaluate(
    run: RunArgument,
    on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Evaluate on this JSONL file, with `query` and `tools` in each line; "
                "repeatable."
            ),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the figures to this file as JSON."),
    ] = None,
    overwrite: OverwriteOption = False,
    everything: AllOption = False,
) -> None:
    """Evaluate the retrievers of a finished run."""
    echo(evaluate_run(run, on or [], out, overwrite=overwrite, everything=everything))
