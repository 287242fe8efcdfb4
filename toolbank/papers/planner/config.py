"""Configuration of the planner."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from toolbank.config.base import Config, UnionChoice
from toolbank.llm.config import SearchModelConfig
from toolbank.training.config import TrainingWithoutValidation

GOLD, RANDOM, NONE = "gold", "random", "none"
"""Candidates without a retriever: the plan's own tools, these with random ones, or none."""


TEMPLATE = "plan-step.j2"
"""The template of the prompts."""


class PlannerTraining(TrainingWithoutValidation):
    """Settings of the training; the defaults are those of the paper for planning with history and retrieved tools."""

    epochs: float = Field(default=3, gt=0, description="passes over the steps")
    batch_size: int = Field(default=64, ge=1, description="per device")
    learning_rate: float = Field(default=3e-5, gt=0, description="peak")
    weight_decay: float = Field(default=0, ge=0, description="of AdamW")
    warmup: float = Field(
        default=20,
        ge=0,
        description="warm-up: a value below 1 is a share of the steps, any other a number of steps",
    )
    max_length: int = Field(
        default=2048,
        ge=64,
        description="tokens of prompt and step; the oldest steps are cut off",
    )


class NewModelSize(Config):
    """A Llama with random weights, and a byte-level BPE of the training texts."""

    vocabulary: int = Field(default=4000, ge=300, description="tokens at most")
    width: int = Field(default=160, ge=8, description="of the hidden states")
    layers: int = Field(default=4, ge=1, description="transformer layers")
    heads: int = Field(
        default=4,
        ge=1,
        description="attention heads; `width` must be divisible by 2 x `heads`",
    )

    @model_validator(mode="after")
    def _divides(self) -> NewModelSize:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width ({self.width}) must be a multiple of twice the heads ({self.heads})"
            )
        return self


class NewModel(Config):
    """A causal language model from scratch."""

    new: NewModelSize = NewModelSize()


class LoraConfig(Config):
    """Train LoRA on all linear layers, and merge it at the end (needs peft)."""

    rank: int = Field(default=16, ge=1, description="rank of the update")
    alpha: int = Field(default=32, ge=1, description="scale: alpha / rank")
    dropout: float = Field(
        default=0, ge=0, lt=1, description="dropout before each low-rank matrix"
    )


class PlannerModelConfig(SearchModelConfig):
    """A language model that plans without training, with its own journal of replies."""

    section: ClassVar[str] = "planner.ask"
    call_steps: ClassVar[tuple[str, ...]] = ("plan",)


class PlannerSetting(Config):
    """The tools that a planner sees, in training and in the test, and whether it sees the history."""

    name: str = Field(
        default="",
        description="name of this setting in tables; unset: made from the other keys",
    )
    train: str = Field(
        default=RANDOM,
        description="tools in training prompts: gold (the plan's own), random (gold and random others), none, or a retriever's hits (gold added)",
    )
    test: str = Field(default=RANDOM, description="gold, random, none, or a retriever")
    history: bool = Field(default=True, description="show the steps before")
    stepwise: bool = Field(
        default=False,
        description="search again at each step, without the tools of earlier steps",
    )

    @property
    def label(self) -> str:
        """The name of its row."""
        shown = "+".join(["T"] * (self.test != NONE) + ["H"] * self.history) or "-"
        by_step = ", by step" if self.stepwise else ""
        return self.name or f"{self.test}{by_step} [{shown}]"

    @property
    def model(self) -> str:
        """The name of its model, which settings may share."""
        return f"{self.train}-{'history' if self.history else 'alone'}"

    @property
    def retrievers(self) -> set[str]:
        """The retrievers that it names."""
        return {self.train, self.test} - {GOLD, RANDOM, NONE}


class PlannerConfig(Config):
    """Plan a request step by step with a causal language model (arXiv 2312.10332, section 3.2).

    Either `model` is trained, or the engine `ask` plans without training.
    """

    model: Annotated[
        NewModel | str | None,
        UnionChoice(
            "should be the name or folder of a causal model, or `{new: {...}}`"
        ),
    ] = Field(
        default=None,
        description="the model to fine-tune; {new: {}} trains one from scratch",
    )
    ask: PlannerModelConfig | None = Field(
        default=None, description="a language model that plans without training"
    )
    lora: LoraConfig | None = None
    training: PlannerTraining = PlannerTraining()
    candidates: int = Field(default=10, ge=1, description="tools per prompt")
    response: int = Field(
        default=128, ge=8, description="largest number of tokens of a step"
    )
    steps: int = Field(default=6, ge=1, description="largest number of steps of a plan")
    settings: tuple[PlannerSetting, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_one_model(self) -> PlannerConfig:
        if (self.model is None) == (self.ask is None):
            raise ValueError(
                "set `model`, to train one, or `ask`, to ask one: one of the two"
            )
        if self.response * 2 > self.training.max_length:
            raise ValueError(
                f"response ({self.response}) must be at most half of training.max_length "
                f"({self.training.max_length}), to leave room for the prompt"
            )
        labels = [setting.label for setting in self.settings]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"settings: two are called {label}; give one a name")
        for setting in self.settings:
            if setting.stepwise and setting.test in (GOLD, RANDOM, NONE):
                raise ValueError(
                    f"settings: {setting.label} is stepwise, so `test` should be a retriever"
                )
        return self
