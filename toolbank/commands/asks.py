"""`toolbank asks`."""

from __future__ import annotations

from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    ReplaceOption,
    SetOption,
)
from toolbank.commands.run import run_stages
from toolbank.run.stages.asks import AsksStage


def asks(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Make the bank, and have requests for each tool by itself written; no further stage."""
    run_stages(recipe, out, settings, until=AsksStage.kind, replace=replace)
