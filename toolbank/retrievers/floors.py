"""The retrievers that every other is held against."""

from collections.abc import Sequence

from toolbank.retrievers.config import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    RetrieverConfig,
)

_FLOORS = (Bm25Config, DescriptionsConfig, NearestConfig)


def add_floors(configs: Sequence[RetrieverConfig]) -> tuple[RetrieverConfig, ...]:
    """The retrievers, and before them bm25, descriptions and nearest where they are missing.

    One whose encoder is trained is no floor. Where another has the name of a floor, it is called
    "untrained" after it.
    """
    labels = {config.label for config in configs}
    listed = {config.type for config in configs if is_untrained(config)}
    added: list[RetrieverConfig] = []
    for floor in _FLOORS:
        kind = floor().type
        if kind not in listed:
            added.append(floor(name=f"{kind}-untrained" if kind in labels else ""))
    return *added, *configs


def is_untrained(config: RetrieverConfig) -> bool:
    """Whether a retriever trains no weights, whatever it counts or averages."""
    return getattr(config, "training", None) is None
