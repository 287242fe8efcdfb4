"""Who writes: engines that answer chat requests, ours and those that packages bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolbank.llm.foreign import find_foreign, make_foreign, suggest
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.chat.chat import Engine
    from toolbank.generate.config import GenerateConfig
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
        check_engine(config)
        return _BUILT_IN[config.engine].make(config, tools, seed, folder)
    return make_foreign(config, _BUILT_IN, tools, seed)


def check_engine(config: EngineConfig) -> None:
    """Refuse a configuration that no engine can be made of, before anything is read for it.

    What the engine needs of this machine is left to `check_access`.

    Raises:
        InputError: there is no such engine, several packages bring it, a model or file is not
            named, or an option or parameter can't be set.
    """
    if config.engine in _BUILT_IN:
        _BUILT_IN[config.engine].check(config)
    else:
        find_foreign(config, _BUILT_IN)


def check_access(config: EngineConfig) -> None:
    """Refuse an engine whose key or package isn't there.

    Raises:
        InputError: the key is not in the environment, or the package is not installed.
    """
    if config.engine in _BUILT_IN:
        _BUILT_IN[config.engine].check_access(config)


@dataclass(frozen=True)
class _BuiltIn:
    """How an engine of ours is made of a configuration, and what is checked before."""

    make: Callable[..., Engine]
    check: Callable[[EngineConfig], None]
    check_access: Callable[[EngineConfig], None] = lambda _: None


def _openai(config: EngineConfig, *_: Any) -> Engine:
    from toolbank.llm.openai import OpenAIEngine

    return OpenAIEngine(config)


def _check_openai(config: EngineConfig) -> None:
    from toolbank.llm.completion import check_settings

    _take_options(config)
    check_settings(config)


def _check_key(config: EngineConfig) -> None:
    from toolbank.llm.api_key import read_key

    read_key(config)


def _vllm(config: EngineConfig, _: Any, seed: int, __: Any) -> Engine:
    from toolbank.llm.vllm import VLLMEngine

    return VLLMEngine(config, seed)


def _check_vllm(config: EngineConfig) -> None:
    from toolbank.llm.vllm import check_settings

    check_settings(config)


def _check_vllm_is_there(config: EngineConfig) -> None:
    from toolbank.llm.vllm import check_installed

    check_installed(config)


def _batch(config: EngineConfig, _: Any, __: Any, folder: Path | None) -> Engine:
    from toolbank.llm.batch.engine import BatchEngine

    if folder is None:
        raise InputError(
            f"{config.section}.engine: batch leaves its requests in the folder of a run, and "
            "there is none here."
        )
    return BatchEngine(config, folder / "batch")


def _check_batch(config: EngineConfig) -> None:
    from toolbank.llm.batch.options import BatchOptions, read_options
    from toolbank.llm.completion import check_settings

    if config.section != "generate":
        raise InputError(
            f"{config.section}.engine: batch answers in rounds, and each reply is needed at "
            "once. Choose openai, vllm or rules."
        )
    _take_options(config, tuple(BatchOptions.model_fields))
    read_options(config)
    check_settings(config)


def _check_key_of_batch(config: EngineConfig) -> None:
    from toolbank.llm.batch.options import read_options

    if read_options(config).submit:
        _check_key(config)


def _recorded(config: EngineConfig, tools: Sequence[Tool], *_: Any) -> Engine:
    from toolbank.generate.writers.recorded import RecordedEngine

    return RecordedEngine(cast("Path", _writing(config).replies), tools)


def _check_recorded(config: EngineConfig) -> None:
    _take_options(config)
    if _writing(config).replies is None:
        raise InputError(
            "generate.replies: the recorded engine needs the file that it plays. "
            "Set it to a JSONL file, or choose another generate.engine."
        )


def _rules(config: EngineConfig, tools: Sequence[Tool], seed: int, _: Any) -> Engine:
    from toolbank.generate.writers.rules import RulesEngine

    return RulesEngine(tools, _writing(config), seed)


def _writing(config: EngineConfig) -> GenerateConfig:
    """The configuration of an engine that writes queries and answers nothing else."""
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


_BUILT_IN = {
    "openai": _BuiltIn(_openai, _check_openai, _check_key),
    "vllm": _BuiltIn(_vllm, _check_vllm, _check_vllm_is_there),
    "batch": _BuiltIn(_batch, _check_batch, _check_key_of_batch),
    "recorded": _BuiltIn(_recorded, _check_recorded),
    # To a judge, the name stands for a heuristic, which is no engine.
    "rules": _BuiltIn(_rules, _take_options),
}
