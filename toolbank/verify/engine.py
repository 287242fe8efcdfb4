"""Who grades: an engine, or nobody where the checks stand alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineKind, refuse_settings

if TYPE_CHECKING:
    from toolbank.verify.config import VerifyConfig

CHECKS_ALONE, RECORDED = "rules", "recorded"

VERIFIERS: Registry[EngineKind[VerifyConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {**OWN, RECORDED: "toolbank.verify.recorded:KIND"},
)


def find_verifier(config: VerifyConfig) -> EngineKind[VerifyConfig] | None:
    """The kind of engine that grades candidates, or None where no model does.

    Raises:
        InputError: there is none of this name, or the checks are given options or parameters.
    """
    if config.engine == CHECKS_ALONE:
        refuse_settings(config)
        return None
    return VERIFIERS.find(config.engine, f"{config.section}.engine")
