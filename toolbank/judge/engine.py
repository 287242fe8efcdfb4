"""Who judges: an engine, or a heuristic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.generate.writers import WRITERS
from toolbank.llm.engines import ENGINES, find_engine
from toolbank.llm.engines.kind import refuse_settings
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.judge.config import JudgeConfig
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind

HEURISTIC = "rules"


def find_judge(config: JudgeConfig) -> EngineKind[EngineConfig] | None:
    """The kind of engine that judges, or None where the heuristic does.

    Raises:
        InputError: there is no engine of this name, it only writes queries, or the heuristic is
            given options or parameters.
    """
    if config.engine == HEURISTIC:
        refuse_settings(config)
        return None
    if config.engine in WRITERS.own and config.engine not in ENGINES.own:
        raise InputError(
            f"judge.engine: {config.engine} only writes queries. Choose openai, vllm or "
            f"batch, or {HEURISTIC}, which is a heuristic here."
        )
    return find_engine(config)
