"""`toolbank judge`."""

from __future__ import annotations

from toolbank.commands.options import OutOption, RecipeArgument, SetOption
from toolbank.commands.run import run_stages
from toolbank.run.stages.judge import JudgeStage


def judge(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Compare the run's polished queries with their drafts, or with another dataset."""
    run_stages(recipe, out, settings, start=JudgeStage.kind, until=JudgeStage.kind)
