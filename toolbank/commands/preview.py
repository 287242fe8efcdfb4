"""`toolbank preview`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    SetOption,
    echo,
    find_folder,
)


def preview(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    count: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many attempts.")
    ] = 5,
) -> None:
    """Show a few prompts, the replies, and what the checks say of them; keep nothing."""
    from toolbank.commands.preview_writers import preview_attempts
    from toolbank.run.assets import using_assets
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import load_recipe

    loaded = load_recipe(recipe, settings or ())
    folder = find_folder(recipe, out, loaded.recipe.name)
    # Of a run, its own prompts are shown; of a recipe, those that it has now.
    is_run = loaded.path.parent == folder
    with using_assets(loaded, RunFolder(folder)) if is_run else loaded.at_work():
        for text in preview_attempts(loaded.recipe, folder, count, loaded.path):
            echo(text)
