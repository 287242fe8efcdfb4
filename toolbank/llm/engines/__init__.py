"""Engines that answer chat requests: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from toolbank.config.registry import Registry
from toolbank.llm.engines.kind import EngineKind, refuse_settings
from toolbank.llm.engines.replay import replace_while_replaying
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

ENGINES: Registry[EngineKind[EngineConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        "openai": "toolbank.llm.engines.openai:KIND",
        "vllm": "toolbank.llm.engines.vllm.engine:KIND",
        "batch": "toolbank.llm.engines.batch:KIND",
        "recorded": "toolbank.requests.engines:RECORDED",
        "rules": "toolbank.requests.engines:RULES",
    },
)


def find_engine(config: EngineConfig) -> EngineKind[EngineConfig]:
    """Find the kind of engine that a configuration names.

    Raises:
        InputError: there is none, or it can't serve this section of a recipe.
    """
    if config.only_engine:
        only: EngineKind[EngineConfig] = resolve_name(config.only_engine)
        return only
    where = f"{config.section}.engine"
    kind = ENGINES.find(config.engine, where)
    if kind.sections is None or config.section in kind.sections:
        return replace_while_replaying(kind)
    rules = ", or rules, which needs no model" if config.by_rules else ""
    raise InputError(
        f"{where}: {config.engine} only serves {' and '.join(kind.sections)}. Choose openai, vllm "
        f"or batch{rules}."
    )


def find_model(config: EngineConfig) -> EngineKind[EngineConfig] | None:
    """Find the kind of engine that a configuration names; None if rules work without one.

    Raises:
        InputError: as of `find_engine`, or rules have options or parameters.
    """
    if config.by_rules and config.engine == "rules":
        refuse_settings(config)
        return None
    return find_engine(config)


def load_writer(name: str) -> EngineKind[EngineConfig] | None:
    """Load the kind of engine that wrote a bank; None if its package is not installed."""
    try:
        return ENGINES.load(name)
    except InputError:
        return None


def has_copied_wording(info: Mapping[str, Any]) -> bool:
    """Whether a bank's queries use the reference's own words, according to its bank.json."""
    made = info.get("generate")
    writer = (
        load_writer(str(made.get("engine", ""))) if isinstance(made, dict) else None
    )
    return writer is not None and writer.copies_wording
