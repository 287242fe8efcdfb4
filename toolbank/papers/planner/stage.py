"""The stage that trains a model of the planner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.papers.planner.config import TEMPLATE, PlannerConfig, PlannerSetting
from toolbank.run.folder import RunFolder, hash_tree
from toolbank.run.stage import Outcome, Stage, bank_hashes
from toolbank.system.errors import InputError
from toolbank.system.files import write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe

MADE = "made.json"
"""The file with the figures of a training, in the folder of its model."""


@dataclass(frozen=True)
class PlannerStage(Stage):
    """Train the model of a setting on the plans of the bank, and save it."""

    kind = "planner"
    config: PlannerConfig
    setting: PlannerSetting

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """Make a stage per model to train, with the first of the settings that share it."""
        config, first = recipe.planner, dict[str, PlannerSetting]()
        if config is None or config.ask:
            return []
        for setting in config.settings:
            first.setdefault(setting.model, setting)
        return [cls(recipe, folder, config, setting) for setting in first.values()]

    @property
    def name(self) -> str:
        """The kind and the name of the model."""
        return f"{self.kind}/{self.setting.model}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The bank, and the retriever whose hits the prompts show."""
        shown = (f"retrievers/{label}" for label in self._shown)
        return "dataset", "generate", "asks", *shown

    @property
    def target(self) -> Path:
        """The folder of the model."""
        return self.folder.planner / self.setting.model

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints, which may not exist."""
        return self.folder.checkpoints / self.name / self.key[:16]

    @property
    def keeps(self) -> str:
        """What an earlier stop has kept; a training that is stopped reports for itself."""
        is_begun = any(self.checkpoints.rglob("*.safetensors"))
        return "What was kept of its training stays." if is_begun else ""

    def depends(self) -> dict[str, Any]:
        """The bank, the settings that shape the model, its initial weights, and its candidates."""
        from toolbank.encoders.location import name_identity

        config = self.config.model_copy(update={"settings": (), "steps": 1})
        return {
            "bank": bank_hashes(self.folder, self.recipe),
            "config": shape(config),
            "weights": [name_identity(name) for name in self._weights],
            "train": self.setting.train,
            "history": self.setting.history,
            "shown": [hash_tree(self.folder.models / label) for label in self._shown],
            "prompts": [asset.sha256 for asset in self.assets()],
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Train the model; a training that was stopped or killed resumes."""
        from toolbank.papers.planner.language_model import train_planner
        from toolbank.papers.planner.plans import (
            CandidateSampler,
            PlannerPrompts,
            read_examples,
        )
        from toolbank.training.config import TrainingContext

        folder, setting = self.folder, self.setting
        candidates = CandidateSampler.of_run(self.recipe, folder, self._shown)
        examples, left_out = read_examples(folder.path, candidates.bank, "train")
        chosen = candidates.choose_train(setting.train, examples)
        situations = candidates.show(examples, chosen, history=setting.history)
        context = TrainingContext(
            self.recipe.seed,
            self.checkpoints.resolve(),
            folder.logs / self.name,
            setting.model,
        )
        model, figures = train_planner(
            examples,
            situations,
            PlannerPrompts(candidates.bank.tools),
            self.config,
            context,
        )
        with folder.making(self.target) as made:
            model.save(made)
            write_json(made / MADE, {"training": figures})
        shutil.rmtree(folder.checkpoints / self.name, ignore_errors=True)
        lines = count(left_out, "line that names", "lines that name")
        return Outcome(
            f"trained on {count(len(examples), 'step')}, "
            f"{100 * figures['prompts_cut']:.1f} % of the prompts cut to fit",
            tuple(path for path in self.target.rglob("*") if path.is_file()),
            problems=(f"{lines} no tool left out",) if left_out else (),
        )

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """Yield the download and the trainings of all planners, for the first one to train."""
        from toolbank.encoders.model import find_local_model
        from toolbank.papers.planner.plans import read_examples
        from toolbank.training.config import count_steps

        stages = self.of(self.recipe, self.folder)
        todo = [stage.name for stage in stages if stage.name in outlook.todo]
        if self.name != todo[0]:
            return
        for name in self._weights:
            if find_local_model(name) is None:
                yield f"Planner {name}: is not on this machine; the run downloads it"
        training, trainings = self.config.training, count(len(todo), "training")
        if outlook.bank_changes and self.recipe.dataset is None:
            yield f"Planners: {trainings}; epochs of each: {training.epochs:g}"
            return
        examples, _ = read_examples(self.folder.path, outlook.bank, "train")
        steps = count(count_steps(len(examples), training), "step")
        yield f"Planners: {trainings}, each of {steps} on {count(len(examples), 'example')}"

    def places(self) -> tuple[Path, ...]:
        """The folder of the initial weights."""
        from toolbank.encoders.location import find_folder

        return tuple(filter(None, map(find_folder, self._weights)))

    def check(self) -> None:
        """Refuse a training or a model that this machine lacks, and more than one process."""
        from toolbank.encoders.model import require_model
        from toolbank.training.config import check_training

        if world_size() > 1:
            raise InputError(
                "planner: one process trains it. Run the stages before it with torchrun (--until "
                "report), then `toolbank planner train RUN` without torchrun."
            )
        check_training(self.config.training)
        for name in self._weights:
            require_model(name)

    def prepare(self) -> None:
        """Download the model."""
        from toolbank.encoders.model import find_model

        for name in self._weights:
            find_model(name)

    def assets(self) -> tuple[Asset, ...]:
        """The template of its prompts."""
        return (find_asset("prompts", TEMPLATE),)

    @property
    def _weights(self) -> list[str]:
        """The name of the initial model, unless it is a new one."""
        return [self.config.model] if isinstance(self.config.model, str) else []

    @property
    def _shown(self) -> list[str]:
        """The retriever whose hits the prompts show, if any."""
        return [*self.setting.retrievers & {self.setting.train}]
