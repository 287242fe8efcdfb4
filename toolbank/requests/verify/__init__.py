"""Verified labels: candidates pooled once, graded by a model, and checks that need none; their settings."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

Check = Literal["deprecated", "alias", "unspoken", "round-trip"]


class VerifyConfig(EngineConfig):
    """Grade the tools of every request again, among candidates of the whole bank."""

    section: ClassVar[str] = "verify"
    call_steps: ClassVar[tuple[str, ...]] = ("verify",)
    by_rules: ClassVar[bool] = True

    engine: str = Field(
        default="rules",
        pattern=ENGINE_NAME,
        description="rules: the checks that need no model, alone; else an engine of a model, "
        "batch, recorded, or one that a package brings",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="null: not sent"
    )
    candidates: int = Field(
        default=20,
        ge=1,
        le=100,
        description="first tools of BM25 and of Tool2Vec beside the request's own and their twins",
    )
    replies: Path | None = Field(
        default=None,
        description="the file of grades that the `recorded` engine reads, named after who gave "
        "them",
    )
    grader: Literal["person", "model"] = Field(
        default="person",
        description="who gave the grades in `replies`: a person's override a model's",
    )
    set_aside: tuple[Check, ...] = Field(
        default=(),
        description="checks that set a request aside where no model graded it: deprecated or "
        "alias (a label is another tool's old name), unspoken (its explanation shares no "
        "word with a label's reference), round-trip (no label is among the first 50 of Tool2Vec fitted without it)",
    )


CHECKS_ALONE, RECORDED = "rules", "recorded"
