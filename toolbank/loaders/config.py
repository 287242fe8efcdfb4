"""Configuration of a dataset that takes the place of sources and generation."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from toolbank.config import Config


class DatasetConfig(Config):
    """A dataset of others: tools, and queries that are labelled with them."""

    type: Literal["jsonl", "toolbank", "toolbench", "toollens"] = Field(
        description="how its files are laid out"
    )
    path: Path = Field(description="the folder that holds them")
    tools: Path | None = Field(
        default=None,
        description="toolbank: what describes the tools, a JSON file or a tools.parquet",
    )
    test: str = Field(
        default="test", min_length=1, description="jsonl: the split that is the test"
    )
    ordered: bool = Field(
        default=False, description="whether a query's tools stand in the order of calls"
    )
