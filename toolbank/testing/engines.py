"""Checks that every engine has to pass, also those of other packages.

In the tests of your package:

    import pytest
    from toolbank.testing.engines import CHECKS, EngineCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check):
        check(EngineCase(KIND, GenerateConfig(engine="mine", model="small")))

A check that fails raises an AssertionError that says what an engine has to do.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolbank.bank.records import Tool
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    EngineError,
    Message,
    PolishTask,
)
from toolbank.llm.engines.kind import EngineContext, EngineKind

_FINISHES = {"stop", "cut-off", "content-filter", "empty", "too-large"}
_LONGEST_S = 60
T = TypeVar("T")


def polish_request(attempt: int) -> ChatRequest:
    """Make a small request that every engine answers, different for each attempt."""
    draft = f"I have {attempt} lists. First, sort them. Finally, add them up."
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    }
    return ChatRequest(
        attempt,
        "polish",
        (Message("user", f'Answer in JSON: {{"query": the request}}. {draft}'),),
        schema,
        PolishTask(draft, (Tool(name="lists.sort", kind="function"),)),
    )


@dataclass(frozen=True)
class EngineCase:
    """An engine under test, and configurations for each check.

    - `requests` get answers. `fails` and `hangs` are a configuration and a request whose call
      raises an EngineError, or gets no answer for a long time; None if no call does.
    - `shaping` are configurations and contexts with other replies than the case's own;
      `transport` are configurations with the same replies.
    - `secret` is a key that the engine uses, and that no message may contain.
    - `repeats`: the same request gets the same answer.
    """

    kind: EngineKind[Any]
    config: Any
    context: EngineContext = field(default_factory=EngineContext)
    requests: Sequence[ChatRequest] = tuple(polish_request(n) for n in range(8))
    shaping: Sequence[Any] = ()
    transport: Sequence[Any] = ()
    fails: tuple[Any, ChatRequest] | None = None
    hangs: tuple[Any, ChatRequest] | None = None
    secret: str = ""
    repeats: bool = True

    def make(self, other: object = None) -> Engine:
        """Create an engine, of another configuration or context if given."""
        if isinstance(other, EngineContext):
            return self.kind.create(self.config, other)
        return self.kind.create(other or self.config, self.context)


def check_identity(case: EngineCase) -> None:
    """Check that the identity changes exactly with the settings that shape replies."""
    known = case.kind.identity(case.config, case.context.seed)
    own, *same = _identities(case, None, None, *case.transport)
    shaped = _identities(case, *case.shaping)
    assert own, "an identity names the model and what shapes a reply"
    assert known in ("", own), "`EngineKind.identity` is that of the engine"
    assert set(same) == {own}, "an identity is the same for the same replies"
    assert len({own, *shaped}) == 1 + len(shaped), (
        "an identity changes with every setting that shapes a reply"
    )
    assert not case.secret or case.secret not in f"{own} {shaped}"


def check_replies(case: EngineCase) -> None:
    """Check that each request gets a reply with text, tokens and a known ending."""
    for reply in _ask(case, case.requests):
        assert isinstance(reply, ChatReply), f"an answer is a ChatReply, not {reply!r}"
        assert reply.finish in _FINISHES, f"`finish` is one of {_FINISHES}"
        assert reply.finish != "stop" or reply.text.strip(), (
            "`finish` of a reply without text is `empty`"
        )
        assert min(reply.prompt_tokens, reply.completion_tokens, reply.latency) >= 0


def check_concurrency(case: EngineCase) -> None:
    """Check that concurrent calls and calls in turn get the same replies."""
    together = _ask(case, case.requests, at_once=True)
    apart = _ask(case, case.requests[::-1])[::-1]
    if case.repeats:
        assert [reply.text for reply in together] == [reply.text for reply in apart]


def check_failures(case: EngineCase) -> None:
    """Check that a failed call raises an EngineError with a reason and without the secret."""
    if case.fails is None:
        return
    config, request = case.fails

    async def fail(engine: Engine) -> EngineError:
        try:
            reply = await engine.answer(request)
        except EngineError as error:
            return error
        raise AssertionError(f"this call has to fail, and returned {reply!r}")

    error = _use(case.make(config), fail)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", error.reason), (
        f"a reason is a short name such as http-429, not {error.reason!r}"
    )
    assert str(error), "an error says what is wrong"
    assert not (error.fatal and error.retryable), "a fatal error is not retryable"
    message = "".join(traceback.format_exception(error))
    assert not case.secret or case.secret not in message, "an error shows the key"


def check_cancelling(case: EngineCase) -> None:
    """Check that a call can be cancelled, and the engine closed after it."""
    config, request = case.hangs or (case.config, case.requests[0])

    async def give_up(engine: Engine) -> None:
        call = asyncio.ensure_future(engine.answer(request))
        await asyncio.wait([call], timeout=0.05 if case.hangs else 0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() or not case.hangs, "a cancelled call is not answered"

    _use(case.make(config), give_up)


def check_closing(case: EngineCase) -> None:
    """Check that the engine can be closed twice, and without a call."""

    async def close(engine: Engine) -> None:
        await engine.close()

    async def ask_and_close(engine: Engine) -> None:
        await engine.answer(case.requests[0])
        await engine.close()

    _use(case.make(), close)
    _use(case.make(), ask_and_close)


CHECKS: tuple[Callable[[EngineCase], None], ...] = (
    check_identity,
    check_replies,
    check_concurrency,
    check_failures,
    check_cancelling,
    check_closing,
)


def _use(engine: Engine, act: Callable[[Engine], Awaitable[T]]) -> T:
    """Run `act` with an engine, and close it."""

    async def run() -> T:
        try:
            async with asyncio.timeout(_LONGEST_S):
                return await act(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def _identities(case: EngineCase, *others: object) -> list[str]:
    async def read(engine: Engine) -> str:
        return engine.identity

    return [_use(case.make(other), read) for other in others]


def _ask(
    case: EngineCase, requests: Sequence[ChatRequest], at_once: bool = False
) -> list[ChatReply]:
    async def ask(engine: Engine) -> list[ChatReply]:
        if at_once:
            return await asyncio.gather(*map(engine.answer, requests))
        return [await engine.answer(request) for request in requests]

    return _use(case.make(), ask)
