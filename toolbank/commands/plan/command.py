"""`toolbank plan`."""

from __future__ import annotations

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    SetOption,
    echo,
    find_folder,
)


def plan(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Say what a run would do, and what calls, tokens and money it takes; call no model."""
    from toolbank.commands.plan.plan import describe_plan
    from toolbank.recipe import load_recipe

    loaded = load_recipe(recipe, settings or ())
    echo(describe_plan(loaded, find_folder(recipe, out, loaded.recipe.name)))
