"""What several commands take, and how they print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.system.terminal import print_message, printable

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="The name of one of `toolbank recipes`, a YAML file, or a run folder.",
    ),
]
RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run, such as runs/quickstart."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="The run folder; runs/NAME if not given."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a value of the recipe; repeatable."
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Show every figure, not only the short table.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Take the folder of another recipe: its results move to replaced/ in it.",
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Write over the file of --out if it is there."),
]


def find_folder(name: str, out: Path | None, recipe_name: str) -> Path:
    """The run folder that a command means.

    That is `--out`, the one that it was given, or runs/<name> in the current folder. If there is no
    run there, it is the run in runs/<name> beside the recipe, where there is one.
    """
    from toolbank.system.folders import is_run_folder

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
    """Print text for people, as far as the terminal can show it."""
    typer.echo(printable(text))


def complain(message: str) -> None:
    """Print on stderr what is wrong."""
    print_message(f"toolbank: {message}")
