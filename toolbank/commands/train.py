"""`toolbank train`."""

from __future__ import annotations

from toolbank.commands.options import OutOption, RecipeArgument, SetOption
from toolbank.commands.run import run_stages
from toolbank.run.stages.fit import FitStage


def train(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Build the retrievers of a run on its bank."""
    run_stages(recipe, out, settings, start=FitStage.kind, until=FitStage.kind)
