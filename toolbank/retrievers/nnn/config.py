"""Configuration of the non-negative elastic net."""

from typing import Literal

from pydantic import Field

from toolbank.retrievers.method import MethodConfig


class NnnConfig(MethodConfig):
    """Explain the request's vector as a sum of few tools' vectors."""

    type: Literal["nnn"] = "nnn"
    first_stage: str = Field(
        default="tool2vec", description="a dense retriever of the recipe"
    )
    candidates: int = Field(default=64, ge=1)
    l1: float = Field(default=0.05, ge=0)
    l2: float = Field(default=0.1, ge=0)

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage."""
        return (self.first_stage,)
