"""Who may write queries: every engine, and those that write and answer nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineKind

if TYPE_CHECKING:
    from toolbank.generate.config import GenerateConfig

WRITERS: Registry[EngineKind[GenerateConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        **OWN,
        "recorded": "toolbank.generate.writers.recorded:KIND",
        "rules": "toolbank.generate.writers.rules.kind:KIND",
    },
)


def find_writer(config: GenerateConfig) -> EngineKind[GenerateConfig]:
    """The kind of engine that writes the queries of a recipe.

    Raises:
        InputError: there is none of this name.
    """
    return WRITERS.find(config.engine, f"{config.section}.engine")
