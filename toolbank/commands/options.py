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
    """The run folder that a command means: `--out`, the one that it was given, or runs/<name>."""
    from toolbank.system.outputs import is_run_folder

    if out is None and is_run_folder(Path(name)):
        return Path(name)
    return out or Path("runs") / recipe_name


def echo(text: str) -> None:
    """Print text for people, as far as the terminal can show it."""
    typer.echo(printable(text))


def complain(message: str) -> None:
    """Print on stderr what is wrong."""
    print_message(f"toolbank: {message}")
