"""Who writes: engines that answer chat requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.errors import InputError

if TYPE_CHECKING:
    from toolbank.bank import Tool
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig


def create_engine(config: EngineConfig, *, tools: Sequence[Tool], seed: int) -> Engine:
    """The engine that a configuration names.

    Raises:
        InputError: a model, key or file of replies is missing or can't be used.
    """
    if config.engine == "openai":
        from toolbank.llm.openai import OpenAIEngine

        return OpenAIEngine(config)
    if config.engine == "recorded":
        from toolbank.llm.recorded import RecordedEngine

        replies: Path | None = getattr(config, "replies", None)
        if replies is None:
            raise InputError(
                "generate.replies: the recorded engine needs the file that it plays. "
                "Set it to a JSONL file, or choose another generate.engine."
            )
        return RecordedEngine(replies, tools)
    from toolbank.llm.rules import RulesEngine

    return RulesEngine(tools, config, seed)
