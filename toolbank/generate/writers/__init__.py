"""Who may write queries: every engine, and those that write and answer nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbank.config.registry import Registry
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineKind
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.generate.config import GenerateConfig
    from toolbank.llm.chat import Engine

WRITERS: Registry[EngineKind[GenerateConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        **OWN,
        "recorded": "toolbank.generate.writers.recorded:KIND",
        "rules": "toolbank.generate.writers.rules.kind:KIND",
    },
)


def find_writer(config: GenerateConfig) -> EngineKind[GenerateConfig]:
    """The kind of engine that writes the queries of a recipe.

    Raises:
        InputError: there is none of this name.
    """
    return WRITERS.find(config.engine, f"{config.section}.engine")


def load_writer(name: str) -> EngineKind[GenerateConfig] | None:
    """The kind of engine that wrote a bank; None if it came with a package that is gone."""
    try:
        return WRITERS.load(name)
    except InputError:
        return None


def describe_writer(engine: Engine, prompt_hash: str) -> dict[str, Any]:
    """What wrote a part of a bank, for its record: who, by which prompts, and lacking which tools."""
    missing: dict[str, int] = getattr(engine, "missing", {})
    return {
        "engine": engine.name,
        "model": engine.model,
        "prompt_hash": prompt_hash,
        "missing_tools": dict(sorted(missing.items())),
    }


def has_copied_wording(info: Mapping[str, Any]) -> bool:
    """Whether a bank's queries are of the reference's own words, by what its bank.json says."""
    made = info.get("generate") or {}
    writer = load_writer(str(made.get("engine", "")))
    return writer is not None and writer.copies_wording
