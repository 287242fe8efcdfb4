"""`toolbank plan`."""

from __future__ import annotations

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    SetOption,
    echo,
    find_folder,
)
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe


def plan(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
) -> None:
    """Estimate the calls, cost and trainings of a run; call no model."""
    loaded = load_recipe(recipe, settings or ())
    folder = find_folder(recipe, out, loaded.recipe.name)
    echo(describe_plan(loaded, folder))
