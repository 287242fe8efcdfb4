"""Who writes: engines that answer chat requests, ours and those that packages bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolbank.errors import InputError
from toolbank.llm.foreign import find_foreign, make_foreign, suggest

if TYPE_CHECKING:
    from toolbank.bank import Tool
    from toolbank.generate.config import GenerateConfig
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig


def create_engine(
    config: EngineConfig,
    *,
    tools: Sequence[Tool],
    seed: int,
    folder: Path | None = None,
) -> Engine:
    """The engine that a configuration names.

    `tools` are those of the bank, for engines that write from the reference itself, and `folder`
    is the run's, for engines that leave files there. `recorded` and `rules` only write. An engine
    of a package is the entry point of that name in the group `toolbank.engines`: a callable
    `(config, *, tools, seed) -> Engine`.

    Raises:
        InputError: there is no such engine, or it can't be used: a model, key, package or file is
            missing, or an option is not one of its own.
    """
    if config.engine in _BUILT_IN:
        return _BUILT_IN[config.engine](config, tools, seed, folder)
    return make_foreign(config, _BUILT_IN, tools, seed)


def check_engine(config: EngineConfig) -> None:
    """Refuse an engine that doesn't exist, without making one.

    Raises:
        InputError: there is no such engine, or several packages bring it.
    """
    if config.engine not in _BUILT_IN:
        find_foreign(config, _BUILT_IN)


def _openai(config: EngineConfig, *_: Any) -> Engine:
    from toolbank.llm.openai import OpenAIEngine

    _take_options(config)
    return OpenAIEngine(config)


def _vllm(config: EngineConfig, _: Any, seed: int, __: Any) -> Engine:
    from toolbank.llm.vllm import VLLMEngine

    return VLLMEngine(config, seed)


def _batch(config: EngineConfig, _: Any, __: Any, folder: Path | None) -> Engine:
    from toolbank.llm.batch.engine import OPTIONS, BatchEngine

    _take_options(config, OPTIONS)
    if folder is None:
        raise InputError(
            f"{config.section}.engine: batch leaves its requests in the folder of a run, and "
            "there is none here."
        )
    return BatchEngine(config, folder / "batch")


def _recorded(config: EngineConfig, tools: Sequence[Tool], *_: Any) -> Engine:
    from toolbank.llm.recorded import RecordedEngine

    replies = _writing(config).replies
    if replies is None:
        raise InputError(
            "generate.replies: the recorded engine needs the file that it plays. "
            "Set it to a JSONL file, or choose another generate.engine."
        )
    return RecordedEngine(replies, tools)


def _rules(config: EngineConfig, tools: Sequence[Tool], seed: int, _: Any) -> Engine:
    from toolbank.llm.rules import RulesEngine

    return RulesEngine(tools, _writing(config), seed)


_BUILT_IN: dict[str, Callable[..., Engine]] = {
    "openai": _openai,
    "vllm": _vllm,
    "batch": _batch,
    "recorded": _recorded,
    "rules": _rules,
}


def _writing(config: EngineConfig) -> GenerateConfig:
    """The configuration of an engine that writes queries and answers nothing else."""
    _take_options(config)
    if config.section != "generate":
        raise InputError(
            f"{config.section}.engine: {config.engine} only writes queries. "
            "Choose openai or vllm."
        )
    return cast("GenerateConfig", config)


def _take_options(config: EngineConfig, known: Sequence[str] = ()) -> None:
    """Refuse options that the engine doesn't have."""
    for name in config.options:
        if name not in known:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InputError(
                f"{config.section}.options.{name}: the engine {config.engine} has no such "
                f"option.{suggest(name, known)} {has}"
            )
