"""`toolbank review export | import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbank.bank.bank import Bank
from toolbank.commands.options import RunArgument, echo
from toolbank.config.explain import read_checked
from toolbank.report.sections import Verification
from toolbank.requests.verify.gradings import (
    add_gradings,
    read_gradings,
    write_gradings,
)
from toolbank.requests.verify.review import make_sheet, read_reviews
from toolbank.requests.verify.review_forms import RECORDS, SheetForm, write_sheet
from toolbank.run.assets import using_assets
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import load_recipe
from toolbank.run.run import find_todo, fit_to_folder, run_recipe
from toolbank.run.stages import make_stages
from toolbank.run.stages.verify import VerifyStage
from toolbank.run.version_0_7 import store_grades
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, sha256_file
from toolbank.system.numbers import count
from toolbank.system.terminal import command


def review(
    action: Annotated[
        Literal["export", "import"],
        typer.Argument(metavar="ACTION", help="export or import."),
    ],
    run: RunArgument,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES", help="The sheets to import, one or several per person."
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of requests to export.")
    ] = 100,
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Hide the present grades, and shuffle the tools."),
    ] = False,
    form: Annotated[
        SheetForm, typer.Option(metavar="FORM", help="csv, argilla, or label-studio.")
    ] = "csv",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The sheet to write; with argilla, a folder."
        ),
    ] = None,
) -> None:
    """Export a sheet of requests for people to grade, or import their grades.

    A file without a column annotator is named after its person.
    """
    folder = open_run(run)
    if (action == "import") != bool(files) or (action == "export") == (out is None):
        raise InputError(
            "review: write `toolbank review export RUN --out FILE`, or `toolbank review import RUN "
            "FILES`."
        )
    bank = Bank.load(folder.bank)
    if action == "import":
        _import_sheets(folder, bank, files or [])
    elif out is not None:
        seed = load_recipe(str(run)).recipe.seed
        rows = make_sheet(bank, folder.candidates, sample, seed, blind=blind)
        paths = write_sheet(out, rows, form, f"{folder.path.name}-review")
        requests = count(len({row.request_id for row in rows}), "request")
        tools = count(len(rows), "tool")
        echo(f"{' and '.join(map(str, paths))}: {requests}, {tools} to judge")


def _import_sheets(folder: RunFolder, bank: Bank, files: list[Path]) -> None:
    gradings, unfinished = read_reviews(files, bank, folder.candidates)
    loaded = load_recipe(str(folder.path))
    with folder.locked():
        store_grades(folder, loaded.recipe)
        stored = read_gradings(folder.grades)
        write_gradings(folder.grades, add_gradings(stored, gradings))
        for path in files:
            file = path / RECORDS if path.is_dir() else path
            place = folder.verify / "reviews" / sha256_file(file)[:16] / file.name
            with atomic_path(place) as kept:
                kept.write_bytes(file.read_bytes())
    people = ", ".join(sorted({one.source for one in gradings})) or "nobody"
    echo(f"{folder.grades}: {count(len(gradings), 'graded request')} by {people}")
    if unfinished:
        listed = ", ".join(f"{query} ({person})" for person, query in unfinished[:5])
        echo(
            f"begun and not finished, so that they do not count yet: "
            f"{count(len(unfinished), 'request')}, such as {listed}"
        )
    recipe, _ = fit_to_folder(loaded, folder)
    kind = VerifyStage.kind
    with using_assets(recipe, folder):
        todo = find_todo(make_stages(recipe.recipe, folder))
    if kind in todo:
        merge = command("verify", folder.path)
        echo(f"The stage verify is not done: {merge} merges the grades.")
        return
    run_recipe(loaded, folder.path, start=kind, until=kind)
    for line in read_checked(folder.verified, Verification).describe():
        echo(line)
