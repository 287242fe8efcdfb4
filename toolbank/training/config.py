"""Configuration of a training."""

from typing import Literal

from pydantic import Field, field_validator

from toolbank.config.base import Config, Transport


class TrainingConfig(Config):
    """How weights are trained; each method has defaults of its own.

    A batch is of one device; `accumulation` of them make a step.
    """

    epochs: float = Field(default=3, gt=0, description="passes over the train queries")
    batch_size: int = Field(default=32, ge=1, description="of one device")
    accumulation: int = Field(default=1, ge=1, description="batches a step")
    learning_rate: float = Field(default=5e-5, gt=0, description="its highest")
    weight_decay: float = Field(
        default=0.01, ge=0, description="a step, as AdamW does it"
    )
    warmup: float = Field(
        default=0.1, ge=0, description="below 1 a share of the steps, else their number"
    )
    schedule: Literal["linear", "cosine", "constant"] = Field(
        default="linear", description="of the learning rate after the warm-up"
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        default="auto",
        description="auto: bf16 where the GPU has it, or the CPU by AMX; else fp32",
    )
    patience: int = Field(
        default=0,
        ge=0,
        description="epochs without gain on validation that end it; 0: all are trained",
    )
    max_length: int = Field(default=128, ge=8, description="tokens; more are cut off")
    report_to: Transport[tuple[str, ...]] = Field(
        default=(), description="such as tensorboard or wandb"
    )


class TrainingWithoutValidation(TrainingConfig):
    """A training in which nothing is validated, so that no epoch is known to gain nothing."""

    @field_validator("patience")
    @classmethod
    def _has_nothing_to_go_by(cls, patience: int) -> int:
        if patience:
            raise ValueError(
                "goes by validation after each epoch, and nothing is validated in this training; "
                "leave it out, and set `epochs`"
            )
        return patience
