"""The engine `batch`: requests and replies in files of OpenAI's Batch API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.chat import EngineError
from toolbank.llm.config import find_grants, read_credentials
from toolbank.llm.engines.batch.folder import BatchOptions, read_options
from toolbank.llm.engines.kind import EngineKind, refuse_executor, refuse_options
from toolbank.llm.engines.openai.completion import check_settings, make_identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.chat import ChatReply, ChatRequest
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import Filler
    from toolbank.llm.journal import Journal
    from toolbank.system.consent import Grant


class BatchEngine:
    """The engine whose replies come in files.

    Its identity is that of the `openai` engine, so that each can use replies of the other.
    """

    name = "batch"
    offers = None

    def __init__(self, config: EngineConfig) -> None:
        self.model = config.model
        self.identity = make_identity(config)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Refuse to answer.

        Raises:
            EngineError: replies only come in files.
        """
        raise EngineError(
            f"batch: the {request.step} of attempt {request.attempt} can't be answered immediately.",
            reason="only-by-files",
        )

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _fill(config: EngineConfig, journal: Journal, counts: CallCounts) -> Filler:
    from toolbank.llm.engines.batch.filler import BatchFiller

    folder = journal.path.parent / "batch"
    return BatchFiller(config, folder, journal, make_identity(config), counts)


def _check(config: EngineConfig) -> None:
    refuse_options(config, tuple(BatchOptions.model_fields))
    refuse_executor(config)
    read_options(config)
    check_settings(config)


def _send_only(config: EngineConfig) -> Mapping[str, JsonValue]:
    submits = read_options(config).submit
    return {**config.options, "wait": False} if submits else config.options


def _check_access(config: EngineConfig) -> None:
    if read_options(config).submit:
        read_credentials(config)


def _sends(config: EngineConfig) -> tuple[Grant, ...]:
    return find_grants(config) if read_options(config).submit else ()


KIND = EngineKind["EngineConfig"](
    name="batch",
    make=lambda config, _: BatchEngine(config),
    check=_check,
    check_access=_check_access,
    sends=_sends,
    identity=lambda config, _: make_identity(config),
    describe=lambda config: f"{config.model or 'the engine batch'} in batches",
    fill=_fill,
    send_only=_send_only,
)
