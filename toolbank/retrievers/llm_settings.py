"""The settings and prompts of the methods that ask a language model."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from toolbank.config.base import UnionChoice
from toolbank.llm.chat import ChatRequest, Message, number_from_text
from toolbank.llm.config import SearchModelConfig
from toolbank.llm.templates import PromptTemplate
from toolbank.retrievers.kind import Baseline, RetrieverKind, TwoStageConfig

if TYPE_CHECKING:
    from toolbank.bank.records import Tool


DECOMPOSE_TEMPLATE = "decompose.j2"


def ask_for_subtasks(template: PromptTemplate, text: str) -> ChatRequest:
    """Build the prompt that asks for the subtasks of a request.

    Raises:
        InputError: the user's prompts/decompose.j2 is broken.
    """
    return ChatRequest(
        attempt=number_from_text(text),
        step="decompose",
        messages=(Message("user", template.render(request=text)),),
        schema=template.schema,
    )


class DecomposeConfig(SearchModelConfig):
    """A language model that splits requests; its replies are kept in their own journal."""

    section: ClassVar[str] = "retrievers.decomposition.decompose"
    call_steps: ClassVar[tuple[str, ...]] = ("decompose",)

    @field_validator("engine")
    @classmethod
    def _check_engine(cls, value: str) -> str:
        if value == "rules":
            raise ValueError(
                "rules writes queries. To split requests by rules, set `decompose: rules`"
            )
        return value


class DecompositionConfig(TwoStageConfig):
    """Split the request into subtasks, and search for each by another retriever."""

    needs_queries: ClassVar[bool] = False
    baseline: ClassVar[Baseline] = "decomposition"
    score: ClassVar[str] = "1 / rank"
    scores_compare: ClassVar[bool] = False

    type: Literal["decomposition"] = "decomposition"
    first_stage: str = Field(default="descriptions", description="name of a retriever")
    decompose: Annotated[
        Literal["rules"] | DecomposeConfig,
        UnionChoice("should be 'rules', or a mapping of keys"),
    ] = Field(default="rules", description="rules, or an engine")

    @property
    def templates(self) -> tuple[str, ...]:
        """The prompt, where a model splits the requests."""
        return (DECOMPOSE_TEMPLATE,) if self.asks else ()

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
        template = PromptTemplate(DECOMPOSE_TEMPLATE)
        requests = [ask_for_subtasks(template, text) for text in texts]
        return requests, [{"subtasks": [text]} for text in texts]


DECOMPOSITION = RetrieverKind(
    DecompositionConfig,
    "toolbank.retrievers.decomposition:DecompositionRetriever",
)


RANK_TEMPLATE = "rank.j2"


ORDER_KEY = "tools"
"""Key of the tool numbers in an answer."""


_SUMMARY_CHARACTERS = 240


Shown = Sequence[tuple[str, str]]
"""Names and summaries of the tools that a prompt shows, in its order."""


def ask_for_order(template: PromptTemplate, text: str, tools: Shown) -> ChatRequest:
    """Build the prompt that asks which of these tools a request needs, best first.

    Raises:
        InputError: the user's prompts/rank.j2 is broken.
    """
    listed = [
        {"number": number, "name": name, "summary": summary}
        for number, (name, summary) in enumerate(tools, start=1)
    ]
    return ChatRequest(
        attempt=number_from_text(text),
        step="rank",
        messages=(Message("user", template.render(request=text, tools=listed)),),
        schema=template.schema,
    )


def summarise(tool: Tool) -> str:
    """Shorten what a prompt says of a tool to one line."""
    text = tool.summary or tool.description
    return textwrap.shorten(text, _SUMMARY_CHARACTERS, placeholder=" ...")


class LlmConfig(SearchModelConfig, TwoStageConfig):
    """Let a language model reorder the top hits of another retriever."""

    needs_queries: ClassVar[bool] = False
    templates: ClassVar[tuple[str, ...]] = (RANK_TEMPLATE,)
    score: ClassVar[str] = "1 / rank"
    scores_compare: ClassVar[bool] = False
    section: ClassVar[str] = "retrievers.llm"
    call_steps: ClassVar[tuple[str, ...]] = ("rank",)
    asks_of_train: ClassVar[bool] = False

    type: Literal["llm"] = "llm"
    first_stage: str = Field(default="tool2vec", description="name of a retriever")
    candidates: int = Field(
        default=20, ge=2, le=200, description="number of hits in the prompt"
    )

    @property
    def asks(self) -> LlmConfig:
        """These settings."""
        return self

    def sample_calls(
        self, tools: Sequence[Tool], texts: Sequence[str]
    ) -> tuple[list[ChatRequest], list[Mapping[str, Any]]]:
        """Prompts with evenly drawn tools as candidates, and an answer that keeps all."""
        template = PromptTemplate(RANK_TEMPLATE)
        step = max(1, len(tools) // self.candidates)
        drawn = [(t.name, summarise(t)) for t in tools[::step][: self.candidates]]
        answer = {ORDER_KEY: list(range(1, len(drawn) + 1))}
        return [ask_for_order(template, text, drawn) for text in texts], [answer]


LLM = RetrieverKind(LlmConfig, "toolbank.retrievers.llm:LlmRetriever")
"""Listwise reranking by a language model, as of RankGPT (arXiv 2304.09542)."""
