"""Configuration of task decomposition."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from toolbank.config.assets import find_asset
from toolbank.config.choice import Choice
from toolbank.llm.config import EngineConfig
from toolbank.retrievers.kind import Baseline, RetrieverKind, TwoStageConfig

TEMPLATE = "decompose.j2"
"""The prompt that asks a model for the subtasks of a request."""


class DecomposeConfig(EngineConfig):
    """A language model that splits requests; every reply is kept in a journal of its own."""

    section: ClassVar[str] = "decompose"
    call_steps: ClassVar[tuple[str, ...]] = ("decompose",)

    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    replies: Path = Field(
        description="journal of the replies, such as subtasks.sqlite; no text is asked for twice"
    )

    @field_validator("engine")
    @classmethod
    def _check_engine(cls, value: str) -> str:
        if value == "rules":
            raise ValueError(
                "rules writes queries. To split requests by rules, say `decompose: rules`"
            )
        return value


class DecompositionConfig(TwoStageConfig):
    """Split the request into subtasks, and search for each by another retriever."""

    score: ClassVar[str] = "1 / rank"

    type: Literal["decomposition"] = "decomposition"
    first_stage: str = Field(
        default="descriptions", description="a retriever of the recipe"
    )
    decompose: Annotated[
        Literal["rules"] | DecomposeConfig,
        Choice("should be 'rules', or a mapping of keys"),
    ] = Field(default="rules", description="rules, or the settings of an engine")

    @property
    def needs_queries(self) -> bool:
        """It splits requests by what it knows of language."""
        return False

    @property
    def baseline(self) -> Baseline:
        """What can be done for a request of many parts without learning their order."""
        return "decomposition"

    @property
    def files(self) -> tuple[Path, ...]:
        """The prompt, where a model splits the requests."""
        return (find_asset("prompts", TEMPLATE).path,) if self.asks else ()

    @property
    def asks(self) -> DecomposeConfig | None:
        """The model that splits the requests, if it isn't done by rules."""
        return None if self.decompose == "rules" else self.decompose


KIND = RetrieverKind(
    DecompositionConfig,
    "toolbank.retrievers.decomposition.retriever:DecompositionRetriever",
)
