"""Engines that packages bring, found by their entry points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import metadata
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, cast

from toolbank.system.errors import InputError, ToolbankError

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig

GROUP = "toolbank.engines"


def find_foreign(
    config: EngineConfig, built_in: Iterable[str]
) -> tuple[str, metadata.EntryPoint]:
    """The package that brings the engine, and its entry point.

    Raises:
        InputError: none does, or several do.
    """
    named = metadata.entry_points(group=GROUP)
    chosen = {_package(entry): entry for entry in named.select(name=config.engine)}
    key = f"{config.section}.engine"
    if not chosen:
        names = [*built_in, *sorted(named.names)]
        raise InputError(
            f"{key}: there is no engine {config.engine!r}.{suggest(config.engine, names)} "
            f"There are: {', '.join(names)}."
        )
    if len(chosen) > 1:
        raise InputError(
            f"{key}: the packages {' and '.join(sorted(chosen))} both bring an engine "
            f"{config.engine!r}. Uninstall all but one."
        )
    [found] = chosen.items()
    return found


def make_foreign(
    config: EngineConfig, built_in: Iterable[str], tools: Sequence[Tool], seed: int
) -> Engine:
    """The engine that a package makes of a configuration.

    Raises:
        InputError: no package or several bring it, or what one brings is no engine.
    """
    package, entry = find_foreign(config, built_in)
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


def suggest(name: str, known: Sequence[str]) -> str:
    """A question whether one of the known names was meant; "" where none is near."""
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


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
