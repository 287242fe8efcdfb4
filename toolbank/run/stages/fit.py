"""The stage that fits a retriever."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.encoders.location import encoder_identity, find_folder, locate
from toolbank.encoders.model import describe_prompts, find_local_model, read_mapping
from toolbank.llm.accounts import CHARACTERS_PER_TOKEN, cost, resolve_price
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import title_and_summary
from toolbank.retrievers.kind import RetrieverConfig, plan_fits, with_needs
from toolbank.run.fit import Fit, fit_together
from toolbank.run.folder import hash_tree
from toolbank.run.stage import Outcome, Stage, bank_hashes, files_read, label_hashes
from toolbank.system.numbers import about, count, dollars
from toolbank.system.terminal import align
from toolbank.system.version import __version__
from toolbank.training.config import TrainingPlan, check_training
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.encoders.config import EncoderConfig
    from toolbank.llm.config import EngineConfig
    from toolbank.run.folder import RunFolder
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe
    from toolbank.system.consent import Grant


# Of how many other settings, or banks, what a stop left stays: each may be of hours, and large.
_OTHERS_KEPT = 2


@dataclass(frozen=True)
class FitStage(Stage):
    """Fits a retriever on the run's bank, and saves it."""

    kind = "retrievers"
    config: RetrieverConfig

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """One for each retriever."""
        return [cls(recipe, folder, config) for config in recipe.retrievers]

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
                self.recipe.labels,
            )
        )
        target = folder.models / label
        with folder.making(target) as made:
            retriever.save(made)
        shutil.rmtree(kept, ignore_errors=True)
        with suppress(OSError):
            # It stays where others are not done.
            folder.checkpoints.rmdir()
        return Outcome(
            "fitted", tuple(path for path in target.rglob("*") if path.is_file())
        )

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """Yield the downloads and trainings of all retrievers to be fitted, for the first of them."""
        todo = [
            one for one in self.of(self.recipe, self.folder) if one.name in outlook.todo
        ]
        if self.config.label != todo[0].config.label:
            return
        downloads = list(_list_downloads(todo))
        downloads += _forecast_embeddings(todo, outlook)
        trainings = list(_describe_ahead(todo, outlook))
        encoders = (encoder for stage in todo for encoder in stage.encoders)
        yield from filter(None, dict.fromkeys(map(describe_prompts, encoders)))
        yield from downloads
        yield from [""] if downloads and trainings else []
        yield from trainings

    def notes(self) -> list[str]:
        """List custom prompt templates, and the prompts of the encoder's model."""
        return [*super().notes(), *filter(None, map(describe_prompts, self.encoders))]

    def files(self) -> tuple[Path, ...]:
        """What the retriever reads besides."""
        return self.config.files

    def assets(self) -> tuple[Asset, ...]:
        """The prompt templates of its searches, and of those that it builds on."""
        parts = reversed(with_needs([self.config], self.recipe.retrievers))
        names = dict.fromkeys(name for config in parts for name in config.templates)
        return tuple(find_asset("prompts", name) for name in names)

    def places(self) -> tuple[Path, ...]:
        """The encoders that lie in a folder."""
        found = (find_folder(locate(encoder)) for encoder in self.encoders)
        return tuple(filter(None, found))

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """The models that its fit or its searches call."""
        return self.config.models

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """The encoders that run on this machine."""
        return tuple(one for one in self.config.encoders if not one.is_remote)

    def sends(self) -> tuple[Grant, ...]:
        """The keys of its models, and the Python file that it runs."""
        return *super().sends(), *self.config.grants

    def check(self) -> None:
        """Refuse a training, an encoder or a model that cannot be used here."""
        for training in self.config.trainings:
            check_training(training)
        super().check()
        self._check_transformers()

    def prepare(self) -> None:
        """Get the encoders, and refuse those, and a class in a file, that cannot be fitted."""
        super().prepare()
        self._check_transformers()
        if self.encoders or self.config.grants:
            create_retriever(self.config).check_encoder()

    def _check_transformers(self) -> None:
        """Refuse encoders on this machine that the retriever cannot be fitted on."""
        for encoder in self.encoders:
            if folder := find_local_model(locate(encoder)):
                settings = read_mapping(folder / "config.json")
                self.config.check_transformer(settings, encoder.label)


def _saved_at(checkpoints: Path) -> float:
    """When something was saved in there last; 0 where nothing was."""
    saved = checkpoints.rglob("*.safetensors")
    return max((path.stat().st_mtime for path in saved), default=0.0)


def _list_downloads(stages: Sequence[FitStage]) -> Iterator[str]:
    """The encoders that a run has to download."""
    encoders = [locate(one) for stage in stages for one in stage.encoders]
    for name in dict.fromkeys(encoders):
        if find_local_model(name) is None:
            yield f"Encoder {name}: is not on this machine; the run downloads it"


def _forecast_embeddings(stages: Sequence[FitStage], outlook: Outlook) -> Iterator[str]:
    """Yield for each endpoint's encoder what the texts cost that were not embedded before."""
    pairs = [(one, stage) for stage in stages for one in stage.config.encoders]
    if not any(one.is_remote for one, _ in pairs):
        return
    from toolbank.encoders.endpoint import EmbeddingStore
    from toolbank.encoders.endpoint_config import EndpointConfig

    labels: dict[EndpointConfig, list[str]] = {}
    for config, stage in pairs:
        if isinstance(config, EndpointConfig):
            labels.setdefault(config, []).append(stage.config.label)
    for config, names in labels.items():
        bank = outlook.bank
        tools = (config.as_document(title_and_summary(one)) for one in bank.tools)
        asked = (*(q.query for q in bank.queries), *(a.ask for a in bank.asks))
        texts = {*tools, *map(config.as_query, asked)}
        new = texts - EmbeddingStore(config).get([*texts]).keys()
        tokens = sum(map(len, new)) / CHARACTERS_PER_TOKEN
        price = resolve_price(config)
        money = dollars(cost(price, tokens, 0)) if price else "cost unknown"
        yield (
            f"{', '.join(names)}: about {count(len(new), 'text')} to embed by {config.model} at "
            f"{config.base_url}, {about(tokens)} tokens, {money}. "
            f"{len(texts) - len(new):,} others were embedded before."
        )


def _describe_ahead(stages: Sequence[FitStage], outlook: Outlook) -> Iterator[str]:
    """The trainings of retrievers that are to be fitted."""
    recipe, todo = outlook.recipe, outlook.todo
    if not any(stage.config.trainings for stage in stages):
        return
    planned = plan_trainings(recipe, todo, outlook.bank)
    generates = outlook.bank_changes and recipe.dataset is None
    # By the same settings, on the bank and retrievers that are there and stay.
    begun = [
        stage.config.label
        for stage in stages
        if not set(stage.needs) & set(todo)
        and any(stage.checkpoints.rglob("*.safetensors"))
    ]
    exact = not generates and "asks" not in todo
    yield from describe_trainings(planned, exact=exact, begun=begun)


def plan_trainings(
    recipe: Recipe, todo: Collection[str], bank: Bank
) -> list[TrainingPlan]:
    """The trainings of the retrievers that are to be fitted on a bank, in their order.

    Raises:
        InputError: one of them can't be trained on it.
    """
    configs = [
        config for config in recipe.retrievers if f"retrievers/{config.label}" in todo
    ]
    return list(plan_fits(configs, recipe.retrievers, bank, recipe.seed))


def describe_trainings(
    planned: Sequence[TrainingPlan], *, exact: bool, begun: Sequence[str] = ()
) -> Iterator[str]:
    """A line for each training, those of held-out fits among them, and one for all of them.

    `exact` where the bank is there: its steps are then those that will be done. `begun` names
    the retrievers of which an earlier run has kept a part.
    """
    if not planned:
        return
    about = "" if exact else "about "
    yield "Trainings:"
    rows = [
        (each.title, f"{about}{each.steps:,} steps" if each.steps else "? steps")
        for each in planned
    ]
    yield from align(rows, right=(1,), indent=2)
    most = "at most " if begun else ""
    steps = count(sum(each.steps or 0 for each in planned), "step")
    yield f"  In all {most}{about}{steps}."
    if begun:
        yield f"  An earlier run has kept a part of {', '.join(begun)}, which is not done again."
