"""Configuration of a training on the tasks of instructions."""

from typing import Literal

from pydantic import Field

from toolbank.training.config import TrainingWithoutValidation


class InstructionsTraining(TrainingWithoutValidation):
    """How an encoder learns that instructions of one task lie near each other."""

    epochs: float = Field(default=1, gt=0, description="passes over the rows")
    batch_size: int = Field(default=64, ge=2, description="of one device")
    objective: Literal["supervised", "unsupervised"] = Field(
        default="supervised",
        description="unsupervised: SimCSE, an instruction and itself with other dropout",
    )
    positives: int = Field(
        default=1,
        ge=1,
        description="rows of each instruction, each with another positive drawn",
    )
    hard_negatives: bool = Field(
        default=True,
        description="for supervised: an instruction that shares the verb alone, and one the noun",
    )
    scale: float = Field(
        default=20, gt=0, description="of cosines; 1 / temperature, as in SimCSE"
    )
