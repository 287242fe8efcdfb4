"""Configuration of MLC."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.method import RetrieverConfig, RetrieverKind
from toolbank.training.config import TrainingConfig

_OF_A_HEAD = {"batch_size": 128, "learning_rate": 2e-3}


class MlcTraining(TrainingConfig):
    """As the paper trains it, but for fewer epochs: it has 100 on ToolBank, 30 on ToolBench.

    With `frozen`, unless said otherwise, the learning rate is 2e-3 and a batch has 128.
    """

    epochs: float = Field(default=20, gt=0, description="passes over the train queries")


class MlcConfig(RetrieverConfig):
    """Classify the request: a label a tool, all of them at once."""

    score: ClassVar[str] = (
        "the log-odds that the request needs the tool: above 0 more likely than not"
    )

    type: Literal["mlc"] = "mlc"
    encoder: EncoderConfig = EncoderConfig()
    frozen: bool = Field(
        default=False,
        description="train a head on the encoder's vectors, and not its weights",
    )
    description_weight: float | None = Field(
        default=None,
        ge=0,
        description="queries that a tool's description counts for; unset: by validation, or 4",
    )
    training: MlcTraining = MlcTraining()

    @model_validator(mode="before")
    @classmethod
    def _suit_the_head(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("frozen") is not True:
            return data
        training = data.get("training", {})
        if isinstance(training, MlcTraining):
            training = training.model_dump(exclude_unset=True)
        if not isinstance(training, dict):
            return data
        return {**data, "training": {**_OF_A_HEAD, **training}}


KIND = RetrieverKind(MlcConfig, "toolbank.retrievers.mlc.retriever:MlcRetriever")
