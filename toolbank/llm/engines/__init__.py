"""Engines that answer chat requests: ours, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbank.config.registry import Registry
from toolbank.llm.engines.kind import EngineKind, refuse_settings
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
    """The kind of engine that a configuration names.

    Raises:
        InputError: there is none, or it can't do what the configuration is for.
    """
    where = f"{config.section}.engine"
    kind = ENGINES.find(config.engine, where)
    if kind.sections is None or config.section in kind.sections:
        return kind
    rules = ", or rules, which needs no model" if config.by_rules else ""
    raise InputError(
        f"{where}: {config.engine} only serves {' and '.join(kind.sections)}. Choose openai, vllm "
        f"or batch{rules}."
    )


def find_model(config: EngineConfig) -> EngineKind[EngineConfig] | None:
    """The kind of engine that a configuration names, or None where rules do it without one.

    Raises:
        InputError: as `find_engine`, or rules are given options or parameters.
    """
    if config.by_rules and config.engine == "rules":
        refuse_settings(config)
        return None
    return find_engine(config)


def load_writer(name: str) -> EngineKind[EngineConfig] | None:
    """The kind of engine that wrote a bank; None if it came with a package that is gone."""
    try:
        return ENGINES.load(name)
    except InputError:
        return None


def has_copied_wording(info: Mapping[str, Any]) -> bool:
    """Whether a bank's queries are of the reference's own words, by what its bank.json says."""
    made = info.get("generate") or {}
    writer = load_writer(str(made.get("engine", "")))
    return writer is not None and writer.copies_wording
