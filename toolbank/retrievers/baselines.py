"""The retrievers that every other is held against."""

from collections.abc import Sequence

from toolbank.retrievers.bm25 import Bm25Config
from toolbank.retrievers.descriptions import DescriptionsConfig
from toolbank.retrievers.kind import Baseline, RetrieverConfig
from toolbank.retrievers.nearest import NearestConfig
from toolbank.retrievers.tool2vec import Tool2VecConfig

BASELINES: tuple[RetrieverConfig, ...] = (
    Bm25Config(),
    DescriptionsConfig(),
    NearestConfig(),
)

DEFAULTS = (*BASELINES, Tool2VecConfig())
"""What a recipe that lists no retrievers has."""


def add_baselines(configs: Sequence[RetrieverConfig]) -> tuple[RetrieverConfig, ...]:
    """The retrievers, and before them those of `BASELINES` that are missing.

    One is there if a retriever is that `baseline`, with whatever settings; by an encoder and by
    words are two. Those added read with the encoder that is listed first, so that a better
    encoder is not taken for a better method.
    Where another retriever has the name of one, it is called "untrained" after it.
    """
    labels = {config.label for config in configs}
    listed = {_kind(config) for config in configs}
    encoders = [encoder for config in configs for encoder in config.encoders]
    added: list[RetrieverConfig] = []
    for baseline in BASELINES:
        if _kind(baseline) not in listed:
            label = baseline.label
            read_by = {"encoder": encoders[0]} if encoders and baseline.encoders else {}
            name = f"{label}-untrained" if label in labels else ""
            added.append(baseline.model_copy(update={"name": name, **read_by}))
    return *added, *configs


def _kind(config: RetrieverConfig) -> tuple[Baseline | None, bool]:
    return config.baseline, bool(config.encoders)
