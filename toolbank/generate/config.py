"""Configuration of the generation loop."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from toolbank.llm.config import EngineConfig

# No model is paid for more, and the numbers of attempts stay such as files can hold.
_MOST = 100_000_000


class GenerateConfig(EngineConfig):
    """Sample, write, check, polish, check, keep."""

    queries: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="accepted queries wanted; unset: all that `recorded` brings, 1000 of others",
    )
    replies: Path | None = Field(
        default=None, description="the file that the `recorded` engine plays"
    )
    offered: int = Field(default=10, ge=2, description="T: tools shown in one attempt")
    min_tools: int = Field(default=2, ge=2, description="fewest tools of a query")
    max_tools: int = Field(default=5, ge=2, description="M: most tools of a query")
    examples: int = Field(default=5, ge=0, description="in-context examples a prompt")
    sampling: Literal["deck", "uniform"] = Field(
        default="deck",
        description="deck: every tool is offered equally often; uniform: as in the paper",
    )
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="stop after so many; unset: 5 a query wanted",
    )
    instructions: str = Field(default="", description="added to the write prompt")
    min_words: int = Field(default=6, ge=1, description="of a draft or query")
    max_words: int = Field(default=150, ge=1, description="of a draft or query")
    near_duplicate: float = Field(
        default=0.8, gt=0, le=1, description="Jaccard of word 3-grams that is too alike"
    )

    @model_validator(mode="after")
    def _ranges_hold(self) -> Self:
        if self.min_tools > self.max_tools:
            raise ValueError(
                f"min_tools ({self.min_tools}) is above max_tools ({self.max_tools})"
            )
        if self.max_tools > self.offered:
            raise ValueError(
                f"max_tools ({self.max_tools}) is above offered ({self.offered}): "
                "a query can't use more tools than are shown"
            )
        if self.min_words > self.max_words:
            raise ValueError(
                f"min_words ({self.min_words}) is above max_words ({self.max_words})"
            )
        return self
