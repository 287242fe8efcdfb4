"""Configuration of task decomposition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from toolbank.config.base import Choice
from toolbank.llm.config import SearchModelConfig
from toolbank.retrievers.decomposition.prompt import TEMPLATE, make_request
from toolbank.retrievers.kind import Baseline, RetrieverKind, TwoStageConfig

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest


class DecomposeConfig(SearchModelConfig):
    """A language model that splits requests; every reply is kept in a journal of its own."""

    section: ClassVar[str] = "retrievers.decomposition.decompose"
    call_steps: ClassVar[tuple[str, ...]] = ("decompose",)

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
    scores_compare: ClassVar[bool] = False

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
    def templates(self) -> tuple[str, ...]:
        """The prompt, where a model splits the requests."""
        return (TEMPLATE,) if self.asks else ()

    @property
    def asks(self) -> DecomposeConfig | None:
        """The model that splits the requests, if it isn't done by rules."""
        return None if self.decompose == "rules" else self.decompose

    def sample_calls(
        self,
        tools: Sequence[Tool],  # noqa: ARG002
        texts: Sequence[str],
    ) -> tuple[list[ChatRequest], list[Mapping[str, Any]]]:
        """The prompts of these requests, and each request as its own subtasks."""
        from toolbank.llm.templates import PromptTemplate

        template = PromptTemplate(TEMPLATE)
        requests = [make_request(template, text) for text in texts]
        return requests, [{"subtasks": [text]} for text in texts]


KIND = RetrieverKind(
    DecompositionConfig,
    "toolbank.retrievers.decomposition.retriever:DecompositionRetriever",
)
