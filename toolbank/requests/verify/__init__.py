"""Settings of label verification: pooled candidates, grades, and checks without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from toolbank.llm.config import ENGINE_NAME, EngineConfig

TEMPLATE = "verify.j2"
"""The prompt."""

REGRADE = "regrade"
"""The step of second calls."""

OTHERS = "others"
"""The key of a reply's free answers."""

FINDINGS = "findings.parquet"
"""The file of what the checks found."""

Check = Literal["deprecated", "alias", "unspoken", "round-trip"]


class GraderConfig(EngineConfig):
    """A model that grades. Without `engine`, it inherits the engine settings of `verify`."""

    section: ClassVar[str] = "verify"
    call_steps: ClassVar[tuple[str, ...]] = ("verify", REGRADE)

    engine: str = Field(
        default="openai",
        pattern=ENGINE_NAME,
        description="openai, vllm, batch, or a plug-in",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="sampling temperature; null: not sent"
    )


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
    second_call: int = Field(
        default=10,
        ge=0,
        le=100,
        description=(
            "most further tools that a second call grades: those that the model names freely, and "
            "the neighbours of needed tools that were no labels; 0: no second call"
        ),
    )
    graders: tuple[GraderConfig, ...] = Field(
        default=(),
        max_length=3,
        description=(
            "two models that both grade, and optionally a third that grades the requests on which "
            "they disagree; without a third, the first one's grades count"
        ),
    )
    sample: int | None = Field(
        default=None,
        ge=1,
        description=(
            "number of queries that are graded, in proportion to splits and numbers of tools; "
            "unset: all"
        ),
    )
    holes: int = Field(
        default=0,
        ge=0,
        description=(
            "number of graded test queries for which the first grader also grades what four "
            "retrievers of the recipe find, or default ones; 0: no hole check"
        ),
    )
    replies: Path | None = Field(
        default=None,
        description=(
            "file of grades for the engine `recorded`, which adds them without asking `graders`; the "
            "file name, without its ending, is the name of the person"
        ),
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

    _is_third: bool = PrivateAttr(False)

    @property
    def is_third(self) -> bool:
        """Whether this grader is only asked where two others disagree."""
        return self._is_third

    @property
    def panel(self) -> tuple[EngineConfig, ...]:
        """The settings of all its models."""
        return (self,) if self.engine == RECORDED else self.graders or (self,)

    def by_grader(self) -> list[VerifyConfig]:
        """The settings for each grader: these, or a copy for each of `graders`.

        Where a file of grades is read, the `graders` are not asked.
        """
        if not self.graders or self.engine == RECORDED:
            return [self]
        keys = EngineConfig.model_fields
        copies = [
            self.model_copy(update={key: getattr(one, key) for key in keys})
            for one in self.graders
        ]
        for copy in copies[_PANEL:]:
            copy._is_third = True
        return copies

    @model_validator(mode="before")
    @classmethod
    def _inherit_engine(cls, data: Any) -> Any:
        graders = data.get("graders") if isinstance(data, dict) else None
        if not isinstance(graders, list | tuple):
            return data
        own = {key: data[key] for key in data if key in EngineConfig.model_fields}
        if own.get("engine") in _NO_MODEL:
            del own["engine"]
        whole = [
            own | one if isinstance(one, dict) and "engine" not in one else one
            for one in graders
        ]
        return {**data, "graders": whole}

    @model_validator(mode="after")
    def _check_graders(self) -> VerifyConfig:
        """Refuse graders that can't be compared, and a hole check that no model can do."""
        said = ""
        if len(self.graders) == 1:
            said = (
                "one grader agrees with nobody; list two or three, or set verify.model"
            )
        elif len({one.model for one in self.graders}) < len(self.graders):
            said = "each grader needs another `model`, by which its grades are stored"
        elif any(one.engine in _NO_MODEL for one in self.graders):
            said = "a grader is a model; import what people say with `toolbank review import`"
        if said:
            raise ValueError(f"graders: {said}")
        return self


_PANEL = 2
CHECKS_ALONE, RECORDED = "rules", "recorded"
_NO_MODEL = (CHECKS_ALONE, RECORDED)
