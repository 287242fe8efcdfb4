"""The planner of a run: its models, what they follow from, and who speaks by them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.config.assets import find_asset
from toolbank.config.base import shape
from toolbank.papers.planner.config import PlannerConfig, PlannerSetting
from toolbank.papers.planner.plans import (
    TEMPLATE,
    CandidateSampler,
    PlannerPrompts,
    PlanStepExample,
    read_plans,
    unroll,
)
from toolbank.run.fit import load_fitted
from toolbank.run.folder import RunFolder, hash_tree, open_run, stage_key
from toolbank.run.recipe import Recipe, RecipeFile, load_recipe
from toolbank.run.stage import bank_hashes
from toolbank.run.stages.fit import FitStage
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.terminal import advise_to_finish
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Split
    from toolbank.papers.planner.language_model import LanguageModel, Speaker
    from toolbank.retrievers.base import Retriever

_MADE = "made.json"


@dataclass(frozen=True)
class RunPlanner:
    """The planner that the recipe of a finished run has."""

    file: RecipeFile
    folder: RunFolder
    config: PlannerConfig

    @property
    def recipe(self) -> Recipe:
        """The run's recipe."""
        return self.file.recipe

    @cached_property
    def bank(self) -> Bank:
        """The bank of the run."""
        return Bank.load(self.folder.bank)

    @cached_property
    def candidates(self) -> CandidateSampler:
        """What chooses tools of the bank."""
        return CandidateSampler(self.bank, self.config.candidates, self.recipe.seed)

    @cached_property
    def prompts(self) -> PlannerPrompts:
        """What the models are asked."""
        from toolbank.llm.templates import PromptTemplate

        return PlannerPrompts(PromptTemplate(TEMPLATE), self.bank.tools)

    @cached_property
    def retrievers(self) -> Mapping[str, Retriever]:
        """The fitted retrievers that the settings name."""
        named = {label for one in self.config.settings for label in one.retrievers}
        for stage in FitStage.of(self.recipe, self.folder):
            if stage.config.label in named and not stage.is_done:
                raise InputError(
                    f"{self.folder.path}: {stage.name} is not fitted on this bank. "
                    f"{advise_to_finish(self.folder.path)}"
                )
        return {
            label: load_fitted(self.recipe, self.folder, label)
            for label in sorted(named)
        }

    def examples(self, split: Split) -> tuple[list[PlanStepExample], int]:
        """The steps of a split's plans, and how many lines were no step.

        Raises:
            InputError: there is none, or the order of the bank's tools means nothing.
        """
        plans, left_out = read_plans(self.bank, self.bank.split(split))
        if not plans:
            raise InputError(
                f"{self.folder.path}: no {split} query has a step that names its tool. A plan is "
                'the query\'s explanation, or its "steps": one a line, such as '
                '"Call get_weather to see whether it rains".'
            )
        return unroll(plans), left_out

    def train(self) -> list[str]:
        """Train the models of all settings that are not there; what was done, a line each.

        A training that was stopped or killed goes on from its checkpoint.

        Raises:
            InputError: the model, peft or a setting of the training can't be had here.
        """
        from toolbank.training.config import TrainingContext, check_training

        check_training(self.config.training)
        lines = []
        examples, left_out = self.examples("train")
        if left_out:
            lines.append(
                f"{count(left_out, 'line that names', 'lines that name')} no tool left out"
            )
        for name, setting in self._models().items():
            target, key = self.folder.planner / name, self._key(setting)
            if _read_key(target) == key:
                lines.append(f"{name}: there already")
                continue
            checkpoints = self.folder.checkpoints / "planner" / name / key[:16]
            context = TrainingContext(
                self.recipe.seed,
                checkpoints.resolve(),
                self.folder.logs / "planner" / name,
                name,
            )
            lines.append(self._train(examples, setting, target, key, context))
            shutil.rmtree(checkpoints.parent, ignore_errors=True)
        return lines

    def check_models(self) -> None:
        """Refuse settings whose models are not there, before any of them is read.

        Raises:
            InputError: one is not trained, or was on something else.
        """
        if not self.config.ask:
            for setting in self._models().values():
                self._demand_model(setting)

    def speaker(self, setting: PlannerSetting) -> Speaker:
        """Who plans in a setting.

        Raises:
            InputError: its model is not trained, or was on something else.
        """
        from toolbank.papers.planner.language_model import (
            EngineSpeaker,
            TrainedSpeaker,
            load_planner,
        )

        if asks := self.config.ask:
            return EngineSpeaker(asks, self.prompts)
        return TrainedSpeaker(
            load_planner(self._demand_model(setting)),
            self.prompts,
            self.config.training.max_length,
            self.config.response,
        )

    def describe_models(self) -> dict[str, Any]:
        """What the trainings of the models came to, by their names."""
        if self.config.ask:
            return {}
        return {
            name: read_json(self.folder.planner / name / _MADE)["training"]
            for name in self._models()
        }

    def _models(self) -> dict[str, PlannerSetting]:
        """The models that are needed, each with the first setting that needs it."""
        found: dict[str, PlannerSetting] = {}
        for setting in self.config.settings:
            found.setdefault(setting.model, setting)
        return found

    def _demand_model(self, setting: PlannerSetting) -> Path:
        folder = self.folder.planner / setting.model
        if _read_key(folder) != self._key(setting):
            why = (
                "was trained by other settings" if folder.is_dir() else "is not trained"
            )
            raise InputError(
                f"{folder}: the planner of {setting.label} {why}. First: toolbank planner train "
                f"{self.folder.path}"
            )
        return folder

    def _key(self, setting: PlannerSetting) -> str:
        """All that a model follows from."""
        from toolbank.encoders.location import find_folder

        model = self.config.model
        folder = find_folder(model) if isinstance(model, str) else None
        settings = self.config.model_copy(update={"settings": (), "steps": 1})
        source = self.folder.models / setting.train
        return stage_key(
            "planner",
            {
                "bank": bank_hashes(self.folder, self.recipe),
                "config": shape(settings),
                "weights": hash_tree(folder) if folder else None,
                "train": setting.train,
                "history": setting.history,
                "retriever": hash_tree(source) if self._is_retriever(setting) else None,
                "prompt": find_asset("prompts", TEMPLATE).sha256,
                "seed": self.recipe.seed,
                "toolbank": __version__,
            },
        )

    def _is_retriever(self, setting: PlannerSetting) -> bool:
        return setting.train in {one.label for one in self.recipe.retrievers}

    def _train(
        self,
        examples: list[PlanStepExample],
        setting: PlannerSetting,
        target: Path,
        key: str,
        context: Any,
    ) -> str:
        from toolbank.papers.planner.evaluate import show
        from toolbank.papers.planner.language_model import train_planner

        candidates = self.candidates
        if self._is_retriever(setting):
            retriever = self.retrievers[setting.train]
            chosen = candidates.choose_train(examples, retriever)
        else:
            chosen = candidates.choose(setting.train, examples)
        situations = show(examples, chosen, candidates, history=setting.history)
        model, training, cut = train_planner(
            examples, situations, self.prompts, self.config, context
        )
        said = {
            "examples": training.examples,
            "steps": training.steps,
            "epochs": training.epochs,
            "parameters": sum(p.numel() for p in model.model.parameters()),
            "prompts_cut": cut,
        }
        self._place(model, target, {"key": key, "training": said})
        return (
            f"{target.name}: trained on {count(training.examples, 'step')}, "
            f"{100 * cut:.1f} % of the prompts cut to fit"
        )

    def _place(self, model: LanguageModel, target: Path, made: dict[str, Any]) -> None:
        """Put a model in its place, whole."""
        self.folder.planner.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder.planner, prefix=".") as name:
            folder = Path(name) / target.name
            model.save(folder)
            write_json(folder / _MADE, made)
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)


def open_planner(run: Path, settings: list[str]) -> RunPlanner:
    """The planner of a run, some keys of its recipe changed.

    Raises:
        InputError: there is no run, or its recipe has no planner or one that can't be had.
    """
    folder = open_run(run)
    file = load_recipe(str(folder.recipe), settings)
    recipe = file.recipe
    if recipe.planner is None:
        raise InputError(
            f"{folder.recipe}: no `planner`. Add it to your recipe and run that again, or say "
            "what it is: --set 'planner={model: {new: {}}, settings: [{test: random}]}'."
        )
    if not (folder.bank / "queries.parquet").is_file():
        raise InputError(f"{run}: no bank yet. {advise_to_finish(run)}")
    return RunPlanner(file, folder, recipe.planner)


def _read_key(folder: Path) -> str:
    path = folder / _MADE
    return str(read_json(path).get("key")) if path.is_file() else ""
