"""Engines that answer chat requests: ours, and those that other packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.llm.engines.kind import EngineKind
from toolbank.system.errors import InputError

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
    """The kind of engine that a configuration names, for who needs each reply at once.

    Raises:
        InputError: there is none, or its replies come in rounds.
    """
    key = f"{config.section}.engine"
    kind = ENGINES.find(config.engine, key)
    if kind.in_rounds:
        raise InputError(
            f"{key}: {kind.name} answers in rounds, and each reply is needed at once. Choose "
            "openai or vllm."
        )
    return kind
