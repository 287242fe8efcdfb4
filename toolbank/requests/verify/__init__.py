"""Settings of label verification: pooled candidates, grades, and checks without a model."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

Check = Literal["deprecated", "alias", "unspoken", "round-trip"]


class VerifyConfig(EngineConfig):
    """Check the tools of each query, and grade candidates of the whole bank."""

    section: ClassVar[str] = "verify"
    call_steps: ClassVar[tuple[str, ...]] = ("verify",)
    by_rules: ClassVar[bool] = True

    engine: str = Field(
        default="rules",
        pattern=ENGINE_NAME,
        description="rules: only checks without a model; else openai, vllm, batch, recorded, or a "
        "plug-in",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    candidates: int = Field(
        default=20,
        ge=1,
        le=100,
        description="top tools of BM25 and of Tool2Vec that are graded",
    )
    replies: Path | None = Field(
        default=None,
        description="file of grades that `recorded` replays; its name names the grader",
    )
    grader: Literal["person", "model"] = Field(
        default="person",
        description="who graded `replies`; a person's grades override a model's",
    )
    set_aside: tuple[Check, ...] = Field(
        default=(),
        description="checks that exclude ungraded queries: deprecated, alias (a label is another "
        "tool's old name), unspoken (no word of a label's reference in the explanation), round-trip "
        "(no label in the top 50 of Tool2Vec fitted without it)",
    )


CHECKS_ALONE, RECORDED = "rules", "recorded"
