"""`toolbank generate`."""

from __future__ import annotations

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    ReplaceOption,
    SetOption,
)
from toolbank.commands.run import run_stages
from toolbank.run.stages.generate import GenerateStage


def generate(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Collect the tools and make the bank; no further stage."""
    run_stages(recipe, out, settings, until=GenerateStage.kind, replace=replace)
