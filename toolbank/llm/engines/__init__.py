"""Engines that answer chat requests: ours, and those that other packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.llm.engines.kind import EngineKind

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

OWN = {
    "openai": "toolbank.llm.engines.openai.kind:KIND",
    "vllm": "toolbank.llm.engines.vllm.engine:KIND",
    "batch": "toolbank.llm.engines.batch.kind:KIND",
}

ENGINES: Registry[EngineKind[EngineConfig]] = Registry(
    "engine", "toolbank.engines", EngineKind, OWN
)


def find_engine(config: EngineConfig) -> EngineKind[EngineConfig]:
    """The kind of engine that a configuration names.

    Raises:
        InputError: there is none.
    """
    return ENGINES.find(config.engine, f"{config.section}.engine")
