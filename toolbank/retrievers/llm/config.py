"""Configuration of the language model as last stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from toolbank.llm.config import SearchModelConfig
from toolbank.retrievers.kind import RetrieverKind, TwoStageConfig
from toolbank.retrievers.llm.prompt import KEY, TEMPLATE, make_request, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest


class LlmConfig(SearchModelConfig, TwoStageConfig):
    """Have a language model order the best hits of a first stage, or drop them.

    What it is asked how is among the settings themselves.
    """

    score: ClassVar[str] = "1 / rank"
    scores_compare: ClassVar[bool] = False
    section: ClassVar[str] = "retrievers.llm"
    call_steps: ClassVar[tuple[str, ...]] = ("rank",)
    asks_of_train: ClassVar[bool] = False

    type: Literal["llm"] = "llm"
    first_stage: str = Field(
        default="tool2vec", description="a retriever of the recipe"
    )
    candidates: int = Field(
        default=20, ge=2, le=200, description="hits of the first stage that it reads"
    )

    @property
    def needs_queries(self) -> bool:
        """It goes by what is said of the tools."""
        return False

    @property
    def templates(self) -> tuple[str, ...]:
        """The prompt."""
        return (TEMPLATE,)

    @property
    def asks(self) -> LlmConfig:
        """These settings."""
        return self

    def sample_calls(
        self, tools: Sequence[Tool], texts: Sequence[str]
    ) -> tuple[list[ChatRequest], list[Mapping[str, Any]]]:
        """Prompts with tools drawn evenly for the candidates, and an answer that keeps all."""
        from toolbank.llm.templates import PromptTemplate

        template = PromptTemplate(TEMPLATE)
        step = max(1, len(tools) // self.candidates)
        drawn = [(t.name, summarise(t)) for t in tools[::step][: self.candidates]]
        answer = {KEY: list(range(1, len(drawn) + 1))}
        return [make_request(template, text, drawn) for text in texts], [answer]


KIND = RetrieverKind(LlmConfig, "toolbank.retrievers.llm.retriever:LlmRetriever")
"""Listwise reranking by a language model, as of RankGPT (arXiv 2304.09542)."""
