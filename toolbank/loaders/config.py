"""Configuration of a dataset that takes the place of sources and generation."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from toolbank.config.base import Config

SPLIT_NAMES = "The names of splits that count are train, validation (or valid, val, dev) and test."


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

    @model_validator(mode="after")
    def _has_no_key_of_another_type(self) -> Self:
        if self.tools is not None and self.type != "toolbank":
            raise ValueError(
                f"a dataset of type {self.type} describes its tools itself; `tools` is for "
                "type toolbank"
            )
        if self.test != "test" and self.type != "jsonl":
            raise ValueError(
                f"a dataset of type {self.type} has a test of its own; `test` is for type jsonl"
            )
        return self
