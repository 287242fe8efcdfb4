"""The engine `openai`: any OpenAI-compatible chat-completions endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.config import find_grants, read_credentials
from toolbank.llm.engines.kind import (
    EngineContext,
    EngineKind,
    refuse_options,
    require_executor,
)
from toolbank.llm.engines.openai.completion import check_settings, make_identity

if TYPE_CHECKING:
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig


def _make(config: EngineConfig, _: EngineContext) -> Engine:
    from toolbank.llm.engines.openai.engine import OpenAIEngine

    return OpenAIEngine(config)


def _check(config: EngineConfig) -> None:
    refuse_options(config)
    check_settings(config)


def _check_access(config: EngineConfig) -> None:
    require_executor(config)
    read_credentials(config)


KIND = EngineKind["EngineConfig"](
    name="openai",
    make=_make,
    check=_check,
    check_access=_check_access,
    sends=find_grants,
    identity=lambda config, _: make_identity(config),
    describe=lambda config: (
        f"{config.model or 'the engine openai'} at {config.base_url}"
    ),
    place=lambda config: config.base_url,
)
