"""Configuration of the judge."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from toolbank.config.base import Choice
from toolbank.llm.config import EngineConfig

Criterion = Literal["naturalness", "fluency", "coherence"]


class JudgeConfig(EngineConfig):
    """Compare queries with their drafts, or with the requests of another dataset."""

    section: ClassVar[str] = "judge"
    call_steps: ClassVar[tuple[str, ...]] = ("judge",)

    engine: str = Field(
        default="rules", description="rules: a heuristic; or an engine of a model"
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    pairs: int = Field(
        default=100, ge=1, le=1_000_000, description="how many pairs are judged"
    )
    against: Annotated[
        Literal["draft"] | Path, Choice("should be 'draft', or the path of a file")
    ] = Field(
        default="draft",
        description='"draft", or other requests: a run, the folder of a dataset, or a JSONL file '
        'whose lines have "query"',
    )
    criteria: tuple[Criterion, ...] = Field(
        default=("naturalness", "fluency", "coherence"),
        min_length=1,
        description="what is compared; each pair in both orders",
    )
