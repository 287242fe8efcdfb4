"""Who writes: engines that answer chat requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from toolbank.errors import InputError

if TYPE_CHECKING:
    from toolbank.bank import Tool
    from toolbank.generate.config import GenerateConfig
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig


def create_engine(config: EngineConfig, *, tools: Sequence[Tool], seed: int) -> Engine:
    """The engine that a configuration names.

    `recorded` and `rules` only write: their configuration is that of generation.

    Raises:
        InputError: a model, key or file of replies is missing or can't be used.
    """
    if config.engine == "openai":
        from toolbank.llm.openai import OpenAIEngine

        return OpenAIEngine(config)
    writing = cast("GenerateConfig", config)
    if config.engine == "recorded":
        from toolbank.llm.recorded import RecordedEngine

        if writing.replies is None:
            raise InputError(
                "generate.replies: the recorded engine needs the file that it plays. "
                "Set it to a JSONL file, or choose another generate.engine."
            )
        return RecordedEngine(writing.replies, tools)
    from toolbank.llm.rules import RulesEngine

    return RulesEngine(tools, writing, seed)
