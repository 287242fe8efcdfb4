"""Configuration of task decomposition."""

from typing import Literal

from pydantic import Field

from toolbank.retrievers.method import MethodConfig


class DecompositionConfig(MethodConfig):
    """Split the request into subtasks, and search for each by another retriever."""

    type: Literal["decomposition"] = "decomposition"
    first_stage: str = Field(
        default="descriptions", description="a retriever of the recipe"
    )

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage."""
        return (self.first_stage,)
