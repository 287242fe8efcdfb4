"""Configuration of the training on steps."""

from pydantic import Field

from toolbank.training.config import TrainingWithoutValidation


class StepsTraining(TrainingWithoutValidation):
    """How an encoder learns to tell a chain of steps from its perturbations.

    The defaults are the paper's where it gives them: five epochs of triples, 512 tokens.
    """

    epochs: float = Field(default=5, gt=0, description="passes over the problems")
    batch_size: int = Field(default=32, ge=2, description="problems, of one device")
    max_length: int = Field(default=512, ge=8, description="tokens; more are cut off")
    negatives: int = Field(
        default=1, ge=1, description="perturbations a chain, of different kinds"
    )
    scale: float = Field(
        default=20, gt=0, description="of cosines: one over SimCSE's temperature"
    )
