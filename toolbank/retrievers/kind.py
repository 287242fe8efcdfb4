"""Describe a kind of retriever: its settings, what they need, and its planned trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.bank.bank import Bank
from toolbank.config.base import Config
from toolbank.encoders import AnyEncoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.training.config import (
    TrainingConfig,
    TrainingPlan,
    count_steps,
    name_training,
)

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest
    from toolbank.llm.config import SearchModelConfig
    from toolbank.system.consent import Grant


Baseline = Literal["words", "nearest neighbours", "descriptions", "decomposition"]
"""The kinds of baselines: methods without training."""


class RetrieverConfig(Config):
    """The settings of a retriever; the `type` of a subclass is a `Literal` of its name.

    A run, its plan and its report know a method only by these properties.
    """

    has_vectors: ClassVar[bool] = False
    """Whether it has tool vectors that others can build on: a `DenseRetriever`."""

    needs_order: ClassVar[bool] = False
    """Whether it learns the order in which a query's tools are called."""

    asks_of_train: ClassVar[bool] = True
    """Whether it also asks a model about train queries if another method learns from its hits."""

    combines: ClassVar[bool] = False
    """Whether it combines the scores of the retrievers that it needs, as a fusion does."""

    score: ClassVar[str] = "on a scale of its own: the higher, the better"
    """Description of the score of a hit, for people."""

    scores_compare: ClassVar[bool] = True
    """Whether scores compare between requests; ranks and z-scores do not."""

    type: str
    name: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="the retriever's name in tables and the name of its folder; default: the type",
    )

    @model_validator(mode="after")
    def _name_in_messages(self) -> Self:
        for encoder in self.encoders:
            encoder.name_retriever(self.label)
        return self

    @property
    def label(self) -> str:
        """Its name in tables, folders and other retrievers of the recipe."""
        return self.name or self.type

    @property
    def needs(self) -> tuple[str, ...]:
        """Labels of the retrievers that it builds on, the first stage first."""
        return ()

    @property
    def needs_vectors(self) -> str:
        """Which of `needs` must have tool vectors; "" if none."""
        return ""

    @property
    def needs_queries(self) -> bool:
        """Whether its fit requires train queries."""
        return True

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """The encoders among its settings, which it loads."""
        return tuple(value for _, value in self if isinstance(value, EncoderConfig))

    @property
    def models(self) -> tuple[SearchModelConfig, ...]:
        """The models at endpoints that its fit or its searches call."""
        embed = (model for encoder in self.encoders for model in encoder.models)
        return (*((self.asks,) if self.asks else ()), *embed)

    def check_transformer(self, settings: Mapping[str, Any], name: str) -> None:
        """Refuse an encoder by the config.json of its transformer, {} without one.

        Raises:
            InputError: the method cannot be fitted on this encoder.
        """

    @property
    def trainings(self) -> tuple[TrainingConfig, ...]:
        """The trainings of weights among its settings."""
        return tuple(value for _, value in self if isinstance(value, TrainingConfig))

    @property
    def learns_from(self) -> str:
        """Which of `needs` it learns from by held-out hits; "" if none."""
        return ""

    @property
    def folds(self) -> int:
        """Number of folds of its held-out hits for train queries."""
        return 2

    def plan_trainings(self, bank: Bank, seed: int) -> list[TrainingPlan]:  # noqa: ARG002
        """List its own trainings in a fit on a bank, in their order.

        Raises:
            InputError: it cannot be trained on this bank.
        """
        return [TrainingPlan(self.label, None) for _ in self.trainings]

    @property
    def lexical(self) -> bool:
        """Whether it matches only words, so that another wording hides a tool."""
        return False

    @property
    def baseline(self) -> Baseline | None:
        """The kind of baseline that it is; None if it is none."""
        return None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the user that it reads; their content shapes the result."""
        return ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What it does besides calls to models that needs the user's permission."""
        return ()

    @property
    def templates(self) -> tuple[str, ...]:
        """Prompt templates of its searches; their content shapes the result."""
        return ()

    @property
    def asks(self) -> SearchModelConfig | None:
        """The language model that it asks in a search; None if none."""
        return None

    def sample_calls(
        self,
        tools: Sequence[Tool],  # noqa: ARG002
        texts: Sequence[str],  # noqa: ARG002
    ) -> tuple[list[ChatRequest], list[Mapping[str, Any]]]:
        """Sample calls to its language model, and answers of typical length, for `plan`."""
        return [], []


class TwoStageConfig(RetrieverConfig):
    """The settings of a method that builds on another retriever."""

    first_stage: str = Field(description="name of a retriever")

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage."""
        return (self.first_stage,)


class DenseConfig(RetrieverConfig):
    """The settings of a method by the cosines of an encoder, fine-tuned or frozen."""

    has_vectors: ClassVar[bool] = True

    encoder: AnyEncoder = SentenceConfig()
    training: EncoderTraining | None = Field(
        default=None, description="fine-tune the encoder; unset: frozen"
    )

    @model_validator(mode="after")
    def _can_train(self) -> Self:
        if self.training is not None and not self.encoder.trains:
            raise ValueError(
                f"`training` needs a sentence encoder, and {self.encoder.label} is of the type "
                f"{self.encoder.type}; remove it, or give a sentence encoder by `model` alone"
            )
        return self

    def plan_trainings(self, bank: Bank, seed: int) -> list[TrainingPlan]:
        """That of its encoder."""
        from toolbank.encoders.finetune_data import count_rows
        from toolbank.retrievers.relevance import train_relevance

        if self.training is None:
            return []
        uses = train_relevance(bank).tools
        rows = count_rows(self.training, uses, len(bank.tools), seed)
        return [TrainingPlan(self.label, count_steps(rows, self.training))]


@dataclass(frozen=True)
class RetrieverKind:
    """A method: the model of its settings, and the place of its class, "module:Class".

    The class is imported on first use; the module of the settings imports nothing heavy.
    """

    config: type[RetrieverConfig]
    retriever: str

    def find_class(self) -> Any:
        """Import the class of its retrievers."""
        return resolve_name(self.retriever)


def with_needs(
    configs: Sequence[RetrieverConfig], others: Sequence[RetrieverConfig]
) -> list[RetrieverConfig]:
    """List retrievers and those that they build on, in the order of `others`, all of a recipe's."""
    labels = {config.label for config in configs}
    for config in reversed(others):
        if config.label in labels:
            labels.update(config.needs)
    return [config for config in others if config.label in labels]


def plan_fits(
    configs: Sequence[RetrieverConfig],
    others: Sequence[RetrieverConfig],
    bank: Bank,
    seed: int,
) -> Iterator[TrainingPlan]:
    """List the trainings of some of a recipe's retrievers; `others` are all of them.

    Raises:
        InputError: one of them cannot be trained on this bank.
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
    *,
    with_stages: bool = False,
) -> Iterator[TrainingPlan]:
    """List the trainings of a retriever's fit on a bank, those for held-out hits included.

    `others` holds all retrievers that it builds on, by label; `with_stages` lists their fits, too.
    `of` names the fit that this one is for.

    Raises:
        InputError: it cannot be trained on this bank.
    """
    from toolbank.retrievers.crossfit import assign_folds, name_part

    for label in config.needs if with_stages else ():
        yield from plan_fit(others[label], others, bank, seed, of, with_stages=True)
    if config.learns_from and _trains(first := others[config.learns_from], others):
        asks = f"for {name_training(config.label, of)}"
        texts = [query.query for query in bank.train_queries]
        parts = assign_folds(texts, first.folds, seed)
        for number, rows in enumerate(parts):
            rest = bank.without_train_queries(rows)
            part = name_part(number, len(parts), asks)
            yield from plan_fit(first, others, rest, seed, part, with_stages=True)
    for planned in config.plan_trainings(bank, seed):
        yield TrainingPlan(name_training(planned.title, of), planned.steps)


def _trains(config: RetrieverConfig, others: Mapping[str, RetrieverConfig]) -> bool:
    return bool(config.trainings) or any(
        _trains(others[label], others) for label in config.needs
    )
