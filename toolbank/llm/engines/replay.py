"""Answer from a journal alone: without calls, keys, or the packages of engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind
    from toolbank.llm.journal import Journal

_REPLAYS: ContextVar[bool] = ContextVar("replays", default=False)


@contextmanager
def replaying() -> Iterator[None]:
    """While the block runs, answer requests to models from the journal alone.

    A request without a reply fails as the journal says that it did, or else is not made, as if a
    budget were spent.
    """
    token = _REPLAYS.set(True)
    try:
        yield
    finally:
        _REPLAYS.reset(token)


def replace_while_replaying(
    kind: EngineKind[EngineConfig],
) -> EngineKind[EngineConfig]:
    """Return a kind, or in a block of `replaying` one that calls no model in its place."""
    if not (_REPLAYS.get() and kind.asks_model):
        return kind
    return replace(
        kind,
        make=partial(ReplayEngine, kind),
        check=lambda _: None,
        check_access=lambda _: None,
        sends=lambda _: (),
        fill=ReplayFiller,
    )


def find_identity(
    kind: EngineKind[EngineConfig], config: EngineConfig, seed: int
) -> str:
    """Return the identity of an engine without making it.

    Raises:
        InputError: its kind does not tell it.
    """
    if identity := kind.identity(config, seed):
        return identity
    raise InputError(
        f"{config.section}.engine: the engine {kind.name} does not say without being started what "
        "its replies belong to, so they cannot be published."
    )


class ReplayEngine:
    """Stands for an engine that is not started: its name, model and identity.

    Raises:
        InputError: as of `find_identity`.
    """

    offers = None

    def __init__(
        self,
        kind: EngineKind[EngineConfig],
        config: EngineConfig,
        context: EngineContext,
    ) -> None:
        self.name, self.model = kind.name, config.model
        self.identity = find_identity(kind, config, context.seed)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Refuse to answer.

        Raises:
            EngineError: always.
        """
        raise EngineError(f"no call is made for {request.step}", reason="replay")

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class ReplayFiller:
    """Says which requests failed for good; `sends` nothing."""

    sends = False

    def __init__(self, _: EngineConfig, journal: Journal, counts: CallCounts) -> None:
        del counts
        self.failures = {
            one.key: EngineError(one.message, reason=one.reason, retryable=True)
            for one in journal.failures()
            if one.final
        }

    def holds(self, key: str) -> bool:
        """No request was sent before."""
        del key
        return False

    async def exchange(self, missing: Sequence[ChatRequest]) -> str:
        """Send nothing."""
        return f"{len(missing)} replies are not published."
