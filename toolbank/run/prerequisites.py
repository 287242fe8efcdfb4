"""What retrievers need of this machine, asked before anything is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolbank.llm.engines import find_engine
from toolbank.retrievers.config import NearestConfig
from toolbank.retrievers.decomposition.config import DecomposeConfig
from toolbank.system.errors import InputError
from toolbank.training.arguments import check_training

if TYPE_CHECKING:
    from toolbank.llm.engines import find_engine
from toolbank.retrievers.config import RetrieverConfig


def check_retrievers(
    configs: Sequence[RetrieverConfig], *, get: bool = True
) -> list[str]:
    """Refuse retrievers that can't be fitted here; gives the encoders still to be downloaded.

    With `get`, encoders that are not on this machine are downloaded, and a model that splits
    requests needs its key; without, neither is asked for.

    Raises:
        InputError: an encoder, a precision, a program to report to, an engine, or its key
            can't be had.
    """
    for config in configs:
        training = getattr(config, "training", None)
        if training is not None:
            check_training(training)
        decompose = getattr(config, "decompose", None)
        if isinstance(decompose, DecomposeConfig):
            if decompose.engine == "rules":
                raise InputError(
                    "decompose.engine: rules writes queries. To split requests by rules, say "
                    "`decompose: rules`."
                )
            kind = find_engine(decompose)
            kind.check(decompose)
            if get:
                kind.check_access(decompose)
    missing = []
    for name in dict.fromkeys(_encoders(configs)):
        from toolbank.encoders.model import find_here, find_model

        if get:
            find_model(name)
        elif find_here(name) is None:
            missing.append(name)
    return missing


def _encoders(configs: Sequence[RetrieverConfig]) -> Iterator[str]:
    for config in configs:
        encoder = getattr(config, "encoder", None)
        by_words = isinstance(config, NearestConfig) and config.by == "bm25"
        if encoder is not None and not by_words:
            yield encoder.model
