"""Create the engine of a stage in this process or in cluster workers, and free what it loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from toolbank.system.consent import require_consent
from toolbank.system.extras import require_library

if TYPE_CHECKING:
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind

C = TypeVar("C", bound="EngineConfig")

_releases: dict[Callable[[], None], None] = {}


def check_installed(config: EngineConfig) -> None:
    """Refuse to continue without Ray if a configuration needs it.

    Raises:
        InputError: it is not installed.
    """
    if config.executor == "ray":
        require_library("ray", f"{config.section}.executor")


def make_engine(kind: EngineKind[C], config: C, context: EngineContext) -> Engine:
    """Create the engine of a configuration where its `executor` says.

    Raises:
        InputError: the engine can't be used, as of `EngineKind.create`, or Ray can't.
    """
    if config.executor == "local":
        return kind.create(config, context)
    kind.check(config)
    require_consent(kind.sends(config), config.section)
    from toolbank.llm.cluster import ClusterEngine

    return ClusterEngine(kind, config, context)


def keep_for_later_stages(release: Callable[[], None]) -> None:
    """Register the function that frees what an engine keeps loaded after it was closed."""
    _releases[release] = None


def release_engines() -> None:
    """Free what closed engines keep loaded, such as a model on the GPU."""
    for release in _releases:
        release()
