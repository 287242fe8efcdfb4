"""`toolbank judge`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import OutOption, SetOption, echo, find_folder


def judge(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="The name of one of `toolbank recipes`, a YAML file, a run folder, or the folder "
            "of a dataset.",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="What the requests are held against: draft, a run, the folder of a dataset, or a "
            "JSONL file.",
        ),
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(metavar="N", help="How many pairs are judged.")
    ] = None,
    out: OutOption = None,
    settings: SetOption = None,
) -> None:
    """Compare requests with their drafts, or with those of another dataset."""
    from toolbank.commands.judge_table import format_judged
    from toolbank.run.recipe import load_recipe, recipe_of_dataset
    from toolbank.run.result import describe_result
    from toolbank.run.run import run_recipe
    from toolbank.run.stages.judge import JudgeStage
    from toolbank.system.errors import InputError
    from toolbank.system.folders import is_run_folder

    given = list(settings or ())
    if against is not None:
        given.append(f"judge.against={json.dumps(against)}")
    if pairs is not None:
        given.append(f"judge.pairs={pairs}")
    place = Path(recipe)
    if place.is_file() and place.suffix in (".jsonl", ".ndjson"):
        raise InputError(
            f"{recipe}: a file of requests, which has no tools. Give it with --against, and a run or "
            "the folder of a dataset in its place."
        )
    is_dataset = place.is_dir() and not is_run_folder(place)
    loaded = (recipe_of_dataset if is_dataset else load_recipe)(recipe, given)
    kind = JudgeStage.kind
    result = run_recipe(
        loaded,
        find_folder(recipe, out, loaded.recipe.name),
        # A dataset is read in a moment; what a model writes is not begun by the way.
        start=kind if loaded.recipe.dataset is None else None,
        until=kind,
    )
    if not result.waiting:
        echo(format_judged(result.folder.judge) + "\n")
    echo(describe_result(result))
