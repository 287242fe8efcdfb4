"""Configuration of the generation loop."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.config.base import Config
from toolbank.encoders import AnyEncoder
from toolbank.encoders.base import EncoderConfig
from toolbank.encoders.sentence import SentenceConfig
from toolbank.llm.config import ENGINE_NAME, EngineConfig

# No model is paid for more, and the numbers of attempts stay such as files can hold.
_MOST = 100_000_000


class ExplanationsConfig(Config):
    """By what explanations are held against their tools; none is rejected by it.

    Its result is `bank/explanations.json`.
    """

    encoder: AnyEncoder = SentenceConfig()
    within: int = Field(
        default=10,
        ge=1,
        description="a tool is supported if it is among so many of the bank's that are nearest "
        "to a sentence of the explanation",
    )


class GenerateConfig(EngineConfig):
    """Sample, write, check, polish, check, keep."""

    section: ClassVar[str] = "generate"
    call_steps: ClassVar[tuple[str, ...]] = ("write", "polish")

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, recorded, rules, or one that a package brings",
    )
    queries: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="accepted queries wanted; unset: all that `recorded` brings, 1000 of others",
    )
    replies: Path | None = Field(
        default=None, description="the file that the `recorded` engine plays"
    )
    offered: int = Field(default=10, ge=2, description="T: tools shown in one attempt")
    tools_per_query: (
        dict[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0, le=1e6)]] | None
    ) = Field(
        default=None,
        min_length=1,
        description="shares of the queries that need exactly so many tools, such as "
        "{1: .25, 2: .5, 3: .25}; in place of min_tools and max_tools",
    )
    min_tools: int | None = Field(
        default=None, ge=1, description="fewest tools of a query; unset: 2"
    )
    max_tools: int | None = Field(
        default=None, ge=1, description="M: most tools of a query; unset: 5"
    )
    examples: int = Field(default=5, ge=0, description="in-context examples a prompt")
    sampling: Literal["deck", "uniform", "related"] | None = Field(
        default=None,
        description="deck: every tool is offered equally often; uniform: as in the paper; "
        "related: a tool, some that are likely to be needed with it, and others; unset: related "
        "for `rules`, deck for all other engines",
    )
    families: bool = Field(
        default=False,
        description="whether siblings, methods of the same name and text on several classes, "
        "count as one in the deal",
    )
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="stop after so many; unset: 5 a query wanted",
    )
    instructions: str = Field(default="", description="added to the write prompt")
    min_words: int = Field(default=6, ge=1, description="of a draft or query")
    max_words: int = Field(default=150, ge=1, description="of a draft or query")
    near_duplicate: float = Field(
        default=0.8, gt=0, le=1, description="Jaccard of word 3-grams that is too alike"
    )
    explanations: ExplanationsConfig | None = Field(
        default=None,
        description="report queries whose explanation does not support their tools; unset: "
        "explanations are not looked at",
    )
    diverse_examples: AnyEncoder | None = Field(
        default=None,
        description="an encoder that puts examples into as many groups as a prompt shows; one of "
        "each is drawn; unset: any are drawn",
    )

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """Those that shape the queries, or what is reported of them."""
        checks = (self.explanations.encoder,) if self.explanations else ()
        return (*checks, *((self.diverse_examples,) if self.diverse_examples else ()))

    @property
    def fewest_tools(self) -> int:
        """Of a query."""
        return min(self.tools_per_query or (self.min_tools or 2,))

    @property
    def most_tools(self) -> int:
        """M: of a query."""
        return max(self.tools_per_query or (self.max_tools or 5,))

    @property
    def is_numbered(self) -> bool:
        """Whether a query may need one tool, or an exact number: those have their own prompt."""
        return self.tools_per_query is not None or self.fewest_tools == 1

    @model_validator(mode="after")
    def _ranges_hold(self) -> Self:
        fewest, most = self.fewest_tools, self.most_tools
        if self.tools_per_query:
            if self.min_tools not in (None, fewest) or self.max_tools not in (
                None,
                most,
            ):
                raise ValueError(
                    "tools_per_query says how many tools are asked for; leave out min_tools and "
                    f"max_tools, or set them to {fewest} and {most}"
                )
            if most > self.offered:
                raise ValueError(
                    f"tools_per_query asks for {most} tools, which is above offered "
                    f"({self.offered}): a query can't use more tools than are shown"
                )
        if fewest > most:
            raise ValueError(f"min_tools ({fewest}) is above max_tools ({most})")
        if most > self.offered:
            raise ValueError(
                f"max_tools ({most}) is above offered ({self.offered}): "
                "a query can't use more tools than are shown"
            )
        if self.min_words > self.max_words:
            raise ValueError(
                f"min_words ({self.min_words}) is above max_words ({self.max_words})"
            )
        return self
