"""Configuration of MLC."""

from typing import Literal

from pydantic import Field

from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.method import MethodConfig
from toolbank.training.config import TrainingConfig


class MlcTraining(TrainingConfig):
    """As the paper trains it, but for fewer epochs."""

    epochs: float = Field(default=20, gt=0)


class MlcConfig(MethodConfig):
    """Classify the request: a label a tool, all of them at once."""

    type: Literal["mlc"] = "mlc"
    encoder: EncoderConfig = EncoderConfig()
    frozen: bool = Field(
        default=False,
        description="train a head on the encoder's vectors, and not its weights",
    )
    training: MlcTraining = MlcTraining()
