"""The kind `batch`: request files of the Batch API, answered later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.engines.batch.options import BatchOptions, read_options
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_options
from toolbank.llm.engines.openai.api_key import read_key
from toolbank.llm.engines.openai.completion import check_settings, make_identity
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig


def _make(config: EngineConfig, context: EngineContext) -> Engine:
    from toolbank.llm.engines.batch.engine import BatchEngine

    if context.folder is None:
        raise InputError(
            f"{config.section}.engine: batch leaves its requests in the folder of a run, and "
            "there is none here."
        )
    return BatchEngine(config, context.folder / "batch")


def _check(config: EngineConfig) -> None:
    refuse_options(config, tuple(BatchOptions.model_fields))
    read_options(config)
    check_settings(config)


def _check_access(config: EngineConfig) -> None:
    if read_options(config).submit:
        read_key(config)


def _identity(config: EngineConfig, _: int) -> str:
    return make_identity(config)


def _describe(config: EngineConfig) -> str:
    return f"{config.model or 'the engine batch'} in batches"


KIND = EngineKind["EngineConfig"](
    name="batch",
    make=_make,
    check=_check,
    check_access=_check_access,
    identity=_identity,
    describe=_describe,
    in_rounds=True,
)
