"""`toolbank verify`."""

from __future__ import annotations

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    ReplaceOption,
    SetOption,
)
from toolbank.commands.run import run_stages
from toolbank.run.stages.verify import VerifyStage


def verify(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Check the labels of a bank, and have a model grade them anew; no further stage.

    A recipe without `verify` has its labels checked without a model.
    """
    from toolbank.run.recipe import load_recipe

    given = list(settings or ())
    if load_recipe(recipe, given).recipe.verify is None:
        given.append("verify={}")
    run_stages(recipe, out, given, until=VerifyStage.kind, replace=replace)
