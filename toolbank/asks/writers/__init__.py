"""Who may write asks: every engine, and those that write and answer nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineKind

if TYPE_CHECKING:
    from toolbank.asks.config import AsksConfig

ASK_WRITERS: Registry[EngineKind[AsksConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        **OWN,
        "recorded": "toolbank.asks.writers.recorded:RECORDED",
        "rules": "toolbank.asks.writers.rules:RULES",
    },
)


def find_ask_writer(config: AsksConfig) -> EngineKind[AsksConfig]:
    """The kind of engine that writes the asks of a recipe.

    Raises:
        InputError: there is none of this name.
    """
    return ASK_WRITERS.find(config.engine, f"{config.section}.engine")
