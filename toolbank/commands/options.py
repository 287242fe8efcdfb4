"""Options shared by several commands, and how commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.system.folders import is_run_folder
from toolbank.system.terminal import print_message, printable

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="The name of a recipe that `toolbank recipes` lists, a YAML file, or a run folder.",
    ),
]
ApiArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE|RUN|API",
        help="A recipe, a run folder, or an API without a recipe.",
    ),
]
RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, such as runs/quickstart."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The run folder (default: runs/NAME)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a key of the recipe; repeatable."
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Show all figures, not only the short table.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--replace",
        help=(
            "Use the run folder even if it has results of another recipe; those move to "
            "replaced/ in it."
        ),
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Overwrite the file of --out."),
]


def find_folder(name: str, out: Path | None, recipe_name: str) -> Path:
    """Return the run folder that a command means.

    That is `--out`, the given run folder, or runs/<name> in the current folder; if no run is
    there, a run in runs/<name> next to the recipe counts.
    """
    if out is not None:
        return out
    given, here = Path(name), Path("runs") / recipe_name
    if is_run_folder(given):
        return given
    if given.is_file() and not is_run_folder(here):
        home = given.parent
        if given.name == "recipe.yaml" and is_run_folder(home):
            return home
        for beside in (home, home.parent) if home.name == "recipes" else (home,):
            if is_run_folder(beside / here):
                return beside / here
    return here


def echo(text: str) -> None:
    """Print text in characters that the terminal can show."""
    typer.echo(printable(text))


def complain(message: str) -> None:
    """Print a warning to stderr."""
    print_message(f"toolbank: {message}")
