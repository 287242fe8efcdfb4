"""The stages of a run, in their order: one file a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.papers.planner.stage import PlannerStage
from toolbank.run.stage import Stage
from toolbank.run.stages.asks import AsksStage
from toolbank.run.stages.dataset import DatasetStage
from toolbank.run.stages.evaluate import EvaluateStage
from toolbank.run.stages.fit import FitStage
from toolbank.run.stages.generate import GenerateStage
from toolbank.run.stages.judge import JudgeStage
from toolbank.run.stages.missing import MissingStage
from toolbank.run.stages.profile import ProfileStage
from toolbank.run.stages.report import ReportStage
from toolbank.run.stages.sources import SourcesStage
from toolbank.run.stages.verify import VerifyStage

if TYPE_CHECKING:
    from pathlib import Path

    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe

STAGES: tuple[type[Stage], ...] = (
    DatasetStage,
    SourcesStage,
    GenerateStage,
    AsksStage,
    MissingStage,
    JudgeStage,
    VerifyStage,
    ProfileStage,
    FitStage,
    EvaluateStage,
    ReportStage,
    PlannerStage,
)


def make_stages(recipe: Recipe, folder: RunFolder) -> list[Stage]:
    """The stages that a recipe has, in their order, bound to a run folder."""
    return [stage for kind in STAGES for stage in kind.of(recipe, folder)]


def find_leftovers(recipe: Recipe, folder: RunFolder) -> list[Path]:
    """What stages left that this recipe doesn't have, and that others would read."""
    used = {stage.kind for stage in make_stages(recipe, folder)}
    found = (
        folder.path / name
        for kind in STAGES
        if kind.kind not in used
        for name in kind.leaves
    )
    return [
        path for path in found if path.exists() and not folder.is_left_by(path, used)
    ]
