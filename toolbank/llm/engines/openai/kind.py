"""The kind `openai`: any OpenAI-compatible chat-completions endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_options
from toolbank.llm.engines.openai.api_key import read_key
from toolbank.llm.engines.openai.completion import check_settings, make_identity

if TYPE_CHECKING:
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig


def _make(config: EngineConfig, _: EngineContext) -> Engine:
    from toolbank.llm.engines.openai.engine import OpenAIEngine

    return OpenAIEngine(config)


def _check(config: EngineConfig) -> None:
    refuse_options(config)
    check_settings(config)


def _check_access(config: EngineConfig) -> None:
    read_key(config)


def _identity(config: EngineConfig, _: int) -> str:
    return make_identity(config)


def _describe(config: EngineConfig) -> str:
    model = config.model or "the engine openai"
    return f"{model} at {config.base_url}"


def _place(config: EngineConfig) -> str:
    return config.base_url


KIND = EngineKind["EngineConfig"](
    name="openai",
    make=_make,
    check=_check,
    check_access=_check_access,
    identity=_identity,
    describe=_describe,
    place=_place,
)
