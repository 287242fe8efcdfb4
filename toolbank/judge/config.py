"""Configuration of the judge."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from toolbank.llm.config import EngineConfig

Criterion = Literal["naturalness", "fluency", "coherence"]


class JudgeConfig(EngineConfig):
    """Compare polished queries with their drafts, or with the queries of another dataset."""

    section: ClassVar[str] = "judge"

    engine: str = "rules"
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    pairs: int = Field(default=100, ge=1, description="how many pairs are judged")
    against: Literal["draft"] | Path = Field(
        default="draft", description='"draft", or a JSONL file whose lines have "query"'
    )
    criteria: tuple[Criterion, ...] = ("naturalness", "fluency", "coherence")
