"""Settings of missing-tool queries: near what a bank's tools do, and served by none of them."""

from typing import ClassVar

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

FEWEST_WORDS = 3


class MissingConfig(EngineConfig):
    """Generate queries that no tool fits, one call per group of tools. Without this section, none are generated."""

    section: ClassVar[str] = "missing"
    call_steps: ClassVar[tuple[str, ...]] = ("missing",)

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, or a plug-in; rules and recorded cannot write them",
    )
    per_group: int = Field(
        default=4,
        ge=1,
        le=20,
        description="queries per group: the tools of a tag, MCP server, module or class",
    )
    groups: int | None = Field(
        default=None,
        ge=1,
        description="number of groups that are drawn at random; unset: all",
    )
    instructions: str = Field(default="", description="added to the prompt")
    max_words: int = Field(default=100, ge=FEWEST_WORDS, description="of a query")
