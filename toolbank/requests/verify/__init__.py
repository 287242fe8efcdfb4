"""Settings of label verification: pooled candidates, grades, and checks without a model."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from toolbank.llm.config import ENGINE_NAME, EngineConfig

REGRADE = "regrade"
"""The step of the calls of a second round."""

Check = Literal["deprecated", "alias", "unspoken", "round-trip"]


class VerifyConfig(EngineConfig):
    """Check the labels of each query, and grade further tools of the whole bank for it."""

    section: ClassVar[str] = "verify"
    call_steps: ClassVar[tuple[str, ...]] = ("verify", REGRADE)
    by_rules: ClassVar[bool] = True

    engine: str = Field(
        default="rules",
        pattern=ENGINE_NAME,
        description="rules: only checks without a model; else openai, vllm, batch, recorded, or a "
        "plug-in",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="sampling temperature; null: not sent"
    )
    candidates: int = Field(
        default=70,
        ge=1,
        le=100,
        description="most tools that are graded for a query, its labels included",
    )
    second_round: int = Field(
        default=10,
        ge=0,
        le=100,
        description=(
            "most further tools that a second call grades: those that the model names freely, and "
            "the neighbours of needed tools that were no labels; 0: no second call"
        ),
    )
    replies: Path | None = Field(
        default=None,
        description="file of grades for the engine `recorded`; the file name is the name of the grader",
    )
    grader: Literal["person", "model"] = Field(
        default="person",
        description="who graded `replies`; a person's grades override a model's",
    )
    set_aside: tuple[Check, ...] = Field(
        default=(),
        description=(
            "checks (see Verified labels): a query that fails one of them and has no grade "
            "is excluded from training and test"
        ),
    )


CHECKS_ALONE, RECORDED = "rules", "recorded"
