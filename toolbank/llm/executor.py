"""Where the engine of a stage is: in this process, or in workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbank.system.extras import demand_library
from toolbank.system.trust import demand

if TYPE_CHECKING:
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind

C = TypeVar("C", bound="EngineConfig")


def check_installed(config: EngineConfig) -> None:
    """Refuse to go on without Ray where a configuration needs it.

    Raises:
        InputError: it is not installed.
    """
    if config.executor == "ray":
        demand_library("ray", f"{config.section}.executor")


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
