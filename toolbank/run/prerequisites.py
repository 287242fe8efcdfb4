"""What retrievers need of this machine, asked before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbank.llm.engines import find_engine
from toolbank.system.errors import InputError
from toolbank.training.arguments import check_training

if TYPE_CHECKING:
    from toolbank.retrievers.method import RetrieverConfig


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
        for training in config.trainings:
            check_training(training)
        if config.asks is not None:
            if config.asks.engine == "rules":
                raise InputError(
                    "decompose.engine: rules writes queries. To split requests by rules, say "
                    "`decompose: rules`."
                )
            kind = find_engine(config.asks)
            kind.check(config.asks)
            if get:
                kind.check_access(config.asks)
    missing = []
    encoders = (encoder.model for config in configs for encoder in config.encoders)
    for name in dict.fromkeys(encoders):
        from toolbank.encoders.model import find_here, find_model

        if get:
            find_model(name)
        elif find_here(name) is None:
            missing.append(name)
    return missing
