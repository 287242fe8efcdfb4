"""Configuration of a list of functions as a source."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from toolbank.sources.kind import SourceConfig


class FunctionsSource(SourceConfig):
    """A file that lists functions, in any of the forms in which they are handed on.

    JSON or JSONL as OpenAI, Anthropic, Gemini, MCP, ToolBench, ToolBank and BFCL have them, or
    CSV or parquet with the columns name and description, and parameters if there are any.
    """

    type: Literal["functions"] = "functions"
    path: Path = Field(description="the file: .json, .jsonl, .csv or .parquet")

    @property
    def label(self) -> str:
        """What messages call the source."""
        return f"functions:{self.name or self.path.name}"

    @property
    def api_name(self) -> str:
        """Its name, or the file's."""
        return self.name or self.path.stem
