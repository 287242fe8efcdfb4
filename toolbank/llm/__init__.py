"""Who writes: engines that answer chat requests, ours and those that packages bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import metadata
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolbank.errors import InputError, ToolbankError

if TYPE_CHECKING:
    from toolbank.bank import Tool
    from toolbank.generate.config import GenerateConfig
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig

GROUP = "toolbank.engines"


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
    return _make_foreign(config, tools, seed)


def check_engine(config: EngineConfig) -> None:
    """Refuse an engine that doesn't exist, without making one.

    Raises:
        InputError: there is no such engine, or several packages bring it.
    """
    if config.engine not in _BUILT_IN:
        _find_foreign(config)


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
                f"option.{_suggest(name, known)} {has}"
            )


def _suggest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _find_foreign(config: EngineConfig) -> tuple[str, metadata.EntryPoint]:
    """The package that brings the engine, and its entry point."""
    named = metadata.entry_points(group=GROUP)
    chosen = {_package(entry): entry for entry in named.select(name=config.engine)}
    key = f"{config.section}.engine"
    if not chosen:
        names = [*_BUILT_IN, *sorted(named.names)]
        raise InputError(
            f"{key}: there is no engine {config.engine!r}.{_suggest(config.engine, names)} "
            f"There are: {', '.join(names)}."
        )
    if len(chosen) > 1:
        raise InputError(
            f"{key}: the packages {' and '.join(sorted(chosen))} both bring an engine "
            f"{config.engine!r}. Uninstall all but one."
        )
    [found] = chosen.items()
    return found


def _make_foreign(config: EngineConfig, tools: Sequence[Tool], seed: int) -> Engine:
    package, entry = _find_foreign(config)
    key = f"{config.section}.engine"
    told = f"{key}: the engine {config.engine!r} of the package {package}"
    try:
        make = entry.load()
    except Exception as error:
        raise InputError(
            f"{told} can't be loaded from {entry.value} ({_said(error)})."
        ) from error
    try:
        engine = make(config, tools=tools, seed=seed)
    except ToolbankError:
        raise
    except Exception as error:
        raise InputError(f"{told} can't be made ({_said(error)}).") from error
    if lacks := _lacks(engine):
        raise InputError(
            f"{told} is no engine: {entry.value} gave {type(engine).__name__!r}, which lacks "
            f"{', '.join(lacks)}."
        )
    return cast("Engine", engine)


def _package(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _lacks(engine: Any) -> list[str]:
    """What an object would need to be an `Engine`."""
    strings = ("name", "model", "identity")
    missing = [
        f"a string `{name}`"
        for name in strings
        if not isinstance(getattr(engine, name, None), str)
    ]
    if not hasattr(engine, "offers"):
        missing.append("`offers`")
    missing += [
        f"an async method `{name}`"
        for name in ("answer", "close")
        if not iscoroutinefunction(getattr(engine, name, None))
    ]
    return missing
