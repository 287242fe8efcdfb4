"""`toolbank report`."""

from __future__ import annotations

from toolbank.commands.options import OutOption, RecipeArgument, SetOption
from toolbank.commands.run import run_stages
from toolbank.run.stages.report import ReportStage


def report(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Write the HTML report of a run."""
    run_stages(recipe, out, settings, start=ReportStage.kind, until=ReportStage.kind)
