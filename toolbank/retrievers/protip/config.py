"""Configuration of ProTIP."""

from typing import Literal

from pydantic import Field

from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.method import MethodConfig
from toolbank.training.config import TrainingConfig


class ProtipTraining(TrainingConfig):
    """Defaults of ProTIP."""

    epochs: float = Field(default=10, gt=0)


class ProtipConfig(MethodConfig):
    """Find the tools of a plan in its order; needs queries whose tools are ordered."""

    type: Literal["protip"] = "protip"
    encoder: EncoderConfig = EncoderConfig()
    margin: float = Field(default=1.0, gt=0)
    negatives: Literal["random", "hard"] = "random"
    steps: int = Field(default=6, ge=1, description="of a search, at most")
    training: ProtipTraining = ProtipTraining()
