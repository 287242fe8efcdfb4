"""Describe a kind of retriever: its settings, what they need, and its planned trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.bank.bank import Bank
from toolbank.config.base import Config
from toolbank.encoders import AnyEncoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.training.config import (
    PlannedTraining,
    TrainingConfig,
    count_steps,
    name_training,
)

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest
    from toolbank.llm.config import SearchModelConfig


Baseline = Literal["words", "nearest neighbours", "descriptions", "decomposition"]
"""What others are held against: what can be done without training, and by what."""


class RetrieverConfig(Config):
    """The settings of a retriever; a subclass's `type`, a `Literal`, says of which method.

    The properties are all that a run, its plan and its report know of a method.
    """

    has_vectors: ClassVar[bool] = False
    """Whether it has vectors of tools that others can build on: a `DenseRetriever`."""

    needs_order: ClassVar[bool] = False
    """Whether it learns the order in which a query's tools are called."""

    asks_of_train: ClassVar[bool] = True
    """Whether it asks a model of train queries, too, where another learns from its hits."""

    combines: ClassVar[bool] = False
    """Whether it combines the scores of all retrievers that it needs: a fusion."""

    score: ClassVar[str] = "on a scale of its own: the higher, the better"
    """What the score of a hit is, for people."""

    scores_compare: ClassVar[bool] = True
    """Whether a score says as much of one request as of another; a rank or a z-score does not."""

    type: str
    name: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="in tables, and of its folder; unset: the type",
    )

    @property
    def label(self) -> str:
        """What tables, folders and other retrievers of the recipe call it."""
        return self.name or self.type

    @property
    def needs(self) -> tuple[str, ...]:
        """Labels of the retrievers that it builds on, its first stage first."""
        return ()

    @property
    def needs_vectors(self) -> str:
        """Which of `needs` has to have vectors of tools; "" if none."""
        return ""

    @property
    def needs_queries(self) -> bool:
        """Whether it can't be fitted without train queries; so it is unless a method says no."""
        return True

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """The encoders that it loads itself: those among its settings."""
        return tuple(value for _, value in self if isinstance(value, EncoderConfig))

    @property
    def trainings(self) -> tuple[TrainingConfig, ...]:
        """How it trains weights: the trainings among its settings that are set."""
        return tuple(value for _, value in self if isinstance(value, TrainingConfig))

    @property
    def learns_from(self) -> str:
        """Which of `needs` it learns from held-out hits of; "" if of none."""
        return ""

    @property
    def folds(self) -> int:
        """Into how many parts train queries are cut to give its hits for each held out."""
        return 2

    def plan_trainings(self, bank: Bank, seed: int) -> list[PlannedTraining]:  # noqa: ARG002
        """Its own trainings in a fit on a bank, in their order and with the titles they have.

        Raises:
            InputError: it can't be trained on this bank.
        """
        return [PlannedTraining(self.label, None) for _ in self.trainings]

    @property
    def lexical(self) -> bool:
        """Whether it finds by the words of requests alone, what another wording hides from it."""
        return False

    @property
    def baseline(self) -> Baseline | None:
        """Which of the retrievers it is that others are held against; None if none."""
        return None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the user's that it reads, in a fit or a search: their content shapes it."""
        return ()

    @property
    def templates(self) -> tuple[str, ...]:
        """The prompt templates that it fills in a search: their content shapes it."""
        return ()

    @property
    def asks(self) -> SearchModelConfig | None:
        """The language model that it asks when it searches; None if none."""
        return None

    def sample_calls(
        self,
        tools: Sequence[Tool],  # noqa: ARG002
        texts: Sequence[str],  # noqa: ARG002
    ) -> tuple[list[ChatRequest], list[Mapping[str, Any]]]:
        """What it asks of these requests over these tools, or the like, and answers as long.

        For a plan, of a method that asks a language model.
        """
        return [], []


class TwoStageConfig(RetrieverConfig):
    """The settings of a method that works on what another retriever finds."""

    first_stage: str = Field(description="a retriever of the recipe")

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage."""
        return (self.first_stage,)


class DenseConfig(RetrieverConfig):
    """The settings of a method by the cosines of an encoder, fine-tuned or as it is."""

    has_vectors: ClassVar[bool] = True

    encoder: AnyEncoder = SentenceConfig()
    training: EncoderTraining | None = Field(
        default=None, description="of the encoder; unset: it stays as it is"
    )

    @model_validator(mode="after")
    def _can_train(self) -> Self:
        if self.training is not None and not self.encoder.trains:
            raise ValueError(
                f"`training` is of a sentence encoder, and {self.encoder.label} is read by "
                f"{self.encoder.type}; leave it out, or name a sentence encoder by `model` alone"
            )
        return self

    def plan_trainings(self, bank: Bank, seed: int) -> list[PlannedTraining]:
        """That of its encoder."""
        from toolbank.encoders.finetune_data import count_rows
        from toolbank.retrievers.relevance import train_relevance

        if self.training is None:
            return []
        uses = train_relevance(bank).tools
        rows = count_rows(self.training, uses, len(bank.tools), seed)
        return [PlannedTraining(self.label, count_steps(rows, self.training))]


@dataclass(frozen=True)
class RetrieverKind:
    """A method: the model of its settings, and where its class lies, as "module:Class".

    The class is imported when it is used; the settings' module imports nothing heavy.
    """

    config: type[RetrieverConfig]
    retriever: str

    def find_class(self) -> Any:
        """The class of its retrievers."""
        module, _, name = self.retriever.partition(":")
        return getattr(import_module(module), name)


def plan_fits(
    configs: Sequence[RetrieverConfig],
    others: Sequence[RetrieverConfig],
    bank: Bank,
    seed: int,
) -> Iterator[PlannedTraining]:
    """The trainings of some of a recipe's retrievers, all of which are `others`.

    Raises:
        InputError: one of them can't be trained on this bank.
    """
    by_label = {config.label: config for config in others}
    for config in configs:
        yield from plan_fit(config, by_label, bank, seed)


def plan_fit(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str = "",
) -> Iterator[PlannedTraining]:
    """The trainings of a retriever's fit on a bank.

    `others` has the retrievers that it builds on, and those that they build on, by label; where
    one is fitted anew for it, without a part of the train queries, that is among them. `of` says
    for which fit this one is.

    Raises:
        InputError: it can't be trained on this bank.
    """
    if config.learns_from:
        asks = f"for {name_training(config.label, of)}"
        first = others[config.learns_from]
        yield from _plan_held_out(first, others, bank, seed, asks)
    for planned in config.plan_trainings(bank, seed):
        yield planned.within(of)


def _plan_held_out(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str,
) -> Iterator[PlannedTraining]:
    from toolbank.retrievers.crossfit import assign_folds, name_part

    if not _trains(config, others):
        return
    texts = [query.query for query in bank.train_queries]
    parts = assign_folds(texts, config.folds, seed)
    for number, rows in enumerate(parts):
        rest = bank.without_train_queries(rows)
        part = name_part(number, len(parts), of)
        yield from _plan_anew(config, others, rest, seed, part)


def _plan_anew(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str,
) -> Iterator[PlannedTraining]:
    for label in config.needs:
        yield from _plan_anew(others[label], others, bank, seed, of)
    yield from plan_fit(config, others, bank, seed, of)


def _trains(config: RetrieverConfig, others: Mapping[str, RetrieverConfig]) -> bool:
    return bool(config.trainings) or any(
        _trains(others[label], others) for label in config.needs
    )
