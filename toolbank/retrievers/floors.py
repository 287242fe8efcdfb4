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

    One whose encoder is trained is no floor, nor are nearest neighbours by words the one by
    meaning. Those added read with the encoder that is listed first, so that a better encoder is
    not taken for a better method. Where another has the name of a floor, it is called "untrained"
    after it.
    """
    labels = {config.label for config in configs}
    listed = {config.type for config in configs if _is_floor(config)}
    encoders = [config.encoder for config in configs if hasattr(config, "encoder")]
    added: list[RetrieverConfig] = []
    for floor in _FLOORS:
        kind = floor().type
        if kind not in listed:
            read_by = (
                {"encoder": encoders[0]} if encoders and floor is not Bm25Config else {}
            )
            name = f"{kind}-untrained" if kind in labels else ""
            added.append(floor.model_validate({"name": name, **read_by}))
    return *added, *configs


def _is_floor(config: RetrieverConfig) -> bool:
    by_words = isinstance(config, NearestConfig) and config.by == "bm25"
    return is_untrained(config) and not by_words


def is_untrained(config: RetrieverConfig) -> bool:
    """Whether a retriever trains no weights, whatever it counts or averages."""
    return getattr(config, "training", None) is None
