"""Where the engine of a stage is: in this process, or in workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbank.system.trust import demand

if TYPE_CHECKING:
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind

C = TypeVar("C", bound="EngineConfig")


def make_engine(kind: EngineKind[C], config: C, context: EngineContext) -> Engine:
    """The engine of a configuration, made where its `executor` says.

    Raises:
        InputError: it can't be used, as `EngineKind.create` has it, or Ray can't.
    """
    if config.executor == "local":
        return kind.create(config, context)
    kind.check(config)
    demand(kind.sends(config), config.section)
    from toolbank.llm.cluster.engine import ClusterEngine

    return ClusterEngine(kind, config, context)
