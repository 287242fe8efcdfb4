"""Configuration of the evaluation."""

from pathlib import Path

from pydantic import Field, PositiveInt

from toolbank.config import Config


class EvaluateConfig(Config):
    """Which metrics, on what."""

    ks: tuple[PositiveInt, ...] = Field(default=(3, 5, 7, 10), min_length=1)
    on: tuple[Path, ...] = Field(
        default=(), description="labelled JSONL files beside the bank's test split"
    )
    resamples: int = Field(
        default=1000, ge=100, description="of the bootstrap behind each interval"
    )
