"""The stage that fits a retriever, and which retrievers a dataset allows."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from toolbank.config.base import shape
from toolbank.datasets.kind import SPLIT_NAMES
from toolbank.retrievers import RETRIEVERS
from toolbank.run.folder import hash_tree
from toolbank.run.stage import Outcome, Stage, bank_hashes, files_read, label_hashes
from toolbank.run.stages.dataset import DatasetStage, SplitDataset, read_split
from toolbank.system.errors import InputError
from toolbank.system.version import __version__
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.config.assets import Asset
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe, RecipeFile
    from toolbank.system.trust import Grant
    from toolbank.training.config import PlannedTraining


# Of how many other settings, or banks, what a stop left stays: each may be of hours, and large.
_OTHERS_KEPT = 2


@dataclass(frozen=True)
class FitStage(Stage):
    """Fits a retriever on the run's bank, and saves it."""

    kind = "retrievers"
    config: RetrieverConfig
    planned: dict[str, tuple[PlannedTraining, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Trainings of the retrievers to be fitted, by label; the first stage fills it for all."""

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """One for each retriever."""
        planned: dict[str, tuple[PlannedTraining, ...]] = {}
        return [cls(recipe, folder, config, planned) for config in recipe.retrievers]

    @property
    def name(self) -> str:
        """The retriever's label after the kind."""
        return f"{self.kind}/{self.config.label}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The bank, and the retrievers that it builds on."""
        built_on = (f"{self.kind}/{label}" for label in self.config.needs)
        return "dataset", "generate", "asks", "verify", *built_on

    @property
    def keeps(self) -> str:
        """The trainings before the one that is stopped, which says itself what it keeps."""
        return "Trainings that ended are kept." if self.config.trainings else ""

    @property
    def checkpoints(self) -> Path:
        """What its fit goes on from, there or not: by these settings and by as many processes."""
        # The steps of an epoch depend on how many share them.
        part = f"-{world_size()}" if world_size() > 1 else ""
        return self.folder.checkpoints / self.config.label / f"{self.key[:16]}{part}"

    def depends(self) -> dict[str, Any]:
        """The bank, the settings that shape the retriever, and what it builds on."""
        from toolbank.encoders.location import encoder_identity

        verified = self.recipe.labels == "verified"
        return {
            "bank": bank_hashes(self.folder, self.recipe),
            **(label_hashes(self.folder, self.recipe) if verified else {}),
            "config": shape(self.config),
            "encoders": [encoder_identity(one) for one in self.config.encoders],
            "needs": {
                label: hash_tree(self.folder.models / label)
                for label in self.config.needs
            },
            "files": files_read(self.config, self.recipe),
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Fit it, with all processes that torchrun started.

        Its checkpoints, and those that other settings or another bank have left, stay until it
        is saved: who tries a setting may come back. Of the others, those saved last do.
        """
        from toolbank.run.fit import Fit, fit_together

        folder, label, checkpoints = self.folder, self.config.label, self.checkpoints
        kept = checkpoints.parent
        others = [path for path in kept.glob("*") if path != checkpoints]
        for path in sorted(others, key=_saved_at, reverse=True)[_OTHERS_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)
        run = folder.path.resolve()
        retriever = fit_together(
            Fit(
                self.config,
                run,
                self.recipe.seed,
                checkpoints.resolve(),
                self._plan_ahead(),
                self.recipe.labels,
            )
        )
        target = folder.models / label
        folder.models.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.models, prefix=".") as name:
            made = Path(name) / label
            retriever.save(made)
            folder.clear(target)
            made.rename(target)
        shutil.rmtree(kept, ignore_errors=True)
        with suppress(OSError):
            # It stays where others are not done.
            folder.checkpoints.rmdir()
        return Outcome(
            "fitted", tuple(path for path in target.rglob("*") if path.is_file())
        )

    def files(self) -> tuple[Path, ...]:
        """What the retriever reads besides."""
        return self.config.files

    def assets(self) -> tuple[Asset, ...]:
        """The prompt templates of its searches, and of those that it builds on."""
        from toolbank.config.assets import find_asset

        labels, names = {self.config.label}, dict[str, None]()
        # A retriever builds on those before it.
        for config in reversed(self.recipe.retrievers):
            if config.label in labels:
                labels.update(config.needs)
                names |= dict.fromkeys(config.templates)
        return tuple(find_asset("prompts", name) for name in names)

    def places(self) -> tuple[Path, ...]:
        """The encoders that lie in a folder."""
        from toolbank.encoders.location import find_folder, locate

        found = (find_folder(locate(encoder)) for encoder in self.config.encoders)
        return tuple(filter(None, found))

    def check(self) -> None:
        """Refuse a training, an encoder or a model to ask that can't be used here."""
        from toolbank.encoders.location import locate
        from toolbank.encoders.model import demand_model
        from toolbank.llm.engines import find_engine
        from toolbank.training.config import check_training

        for training in self.config.trainings:
            check_training(training)
        if asks := self.config.asks:
            find_engine(asks).check(asks)
        for encoder in self.config.encoders:
            demand_model(locate(encoder))

    def sends(self) -> tuple[Grant, ...]:
        """The key of a model that is asked, and where it is."""
        from toolbank.llm.engines import find_engine

        asks = self.config.asks
        return tuple(find_engine(asks).sends(asks)) if asks else ()

    def prepare(self) -> None:
        """Refuse a model whose key isn't here, and workers without Ray; download encoders."""
        from toolbank.encoders.location import locate
        from toolbank.encoders.model import find_model
        from toolbank.encoders.workers import check_workers
        from toolbank.llm.engines import find_engine

        if asks := self.config.asks:
            find_engine(asks).check_access(asks)
        for encoder in self.config.encoders:
            check_workers(encoder)
            find_model(locate(encoder))

    def _plan_ahead(self) -> tuple[PlannedTraining, ...]:
        """Its trainings, and those of the retrievers after it that are to be fitted."""
        if self.config.label not in self.planned:
            self._plan()
        labels = list(self.planned)
        ahead = labels[labels.index(self.config.label) :]
        return tuple(chain.from_iterable(self.planned[label] for label in ahead))

    def _plan(self) -> None:
        from toolbank.retrievers.kind import plan_fits
        from toolbank.run.fit import load_labelled

        stages = self.of(self.recipe, self.folder)
        after = stages[stages.index(self) + 1 :]
        configs = [self.config, *(s.config for s in after if not s.is_done)]
        self.planned.update({config.label: () for config in configs})
        if not any(config.trainings for config in configs):
            return
        bank = load_labelled(self.folder, self.recipe.labels)
        for config in configs:
            # What can't be trained is told when it comes to that.
            with suppress(InputError):
                planned = plan_fits(
                    [config], self.recipe.retrievers, bank, self.recipe.seed
                )
                self.planned[config.label] = tuple(planned)


def _saved_at(checkpoints: Path) -> float:
    """When something was saved in there last; 0 where nothing was."""
    saved = checkpoints.rglob("*.safetensors")
    return max((path.stat().st_mtime for path in saved), default=0.0)


def suit_dataset(file: RecipeFile, folder: RunFolder) -> RecipeFile:
    """The recipe with those of its retrievers that its dataset is enough for.

    Without train queries, those that need some go where nobody listed them: the baselines that
    were added, and the default list. Asks are to learn from, too: with them, all stay.

    Raises:
        InputError: one that is listed needs train queries and there are none, or the dataset can't
            be read.
    """
    recipe = file.recipe
    unfit = _find_unfit(recipe.retrievers)
    if recipe.dataset is None or recipe.asks is not None or not unfit:
        return file
    if DatasetStage(recipe, folder).has_train_queries():
        return file
    added = len(recipe.retrievers) - file.listed
    listed = [unfit[c.label] for c in recipe.retrievers[added:] if c.label in unfit]
    if listed:
        raise _refuse(file, listed, read_split(recipe))
    kept = tuple(c for c in recipe.retrievers if c.label not in unfit)
    # No reader of the run's recipe is to add again what went.
    suited = recipe.model_copy(update={"retrievers": kept, "baselines": False})
    return dataclasses.replace(file, recipe=suited)


def note_left_out(before: Recipe, after: Recipe) -> list[str]:
    """That retrievers of the one recipe are not in the other, for want of train queries."""
    kept = {config.label for config in after.retrievers}
    gone = [one.label for one in before.retrievers if one.label not in kept]
    if not gone:
        return []
    return [f"not fitted, since the dataset has no train queries: {', '.join(gone)}"]


def _find_unfit(configs: Sequence[RetrieverConfig]) -> dict[str, str]:
    """What can't be fitted without train queries: labels, and what people are told of each."""
    unfit: dict[str, str] = {}
    for config in configs:
        first = next((label for label in config.needs if label in unfit), "")
        if config.needs_queries:
            unfit[config.label] = config.label
        elif first:
            unfit[config.label] = f"{config.label} (over {first})"
    return unfit


def _refuse(file: RecipeFile, listed: Sequence[str], found: SplitDataset) -> InputError:
    alone, over = _find_types()
    splits = ", ".join(
        f"{found.splits[name]:,} {name}" for name in ("validation", "test")
    )
    return InputError(
        "\n".join(
            (
                f"{file.path}: retrievers: the dataset has no train queries ({splits}), and these "
                f"can't be fitted without: {', '.join(listed)}. Leave them out. By their defaults "
                f"these need none: {', '.join(alone)}; over them, {', '.join(over)}.",
                *(f"  {line}" for line in found.describe_left_out()),
                "To train, name a split of the dataset train, leave the splits out to have them "
                f"drawn, or have asks written for its tools (`asks`). {SPLIT_NAMES}",
            )
        )
    )


def _find_types() -> tuple[list[str], list[str]]:
    """The types that need no train queries: those that stand alone, and those that build on one."""
    alone: list[str] = []
    over: list[str] = []
    for name in RETRIEVERS.names:
        try:
            config = RETRIEVERS.load(name).config(type=name)
        except (InputError, ValidationError):
            # It can't be had here, or not without settings that nobody has given.
            continue
        if not config.needs_queries:
            (over if config.needs else alone).append(name)
    return alone, over
