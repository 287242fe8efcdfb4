"""What every engine has to do, whoever brings it.

In the tests of a package that brings one:

    import pytest
    from toolbank.testing.engines import CHECKS, EngineCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check):
        check(EngineCase(KIND, GenerateConfig(engine="mine", model="small")))

A check that fails raises an AssertionError that says what an engine should do.
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
    """A small request that every engine answers; another one for each attempt."""
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
    """An engine under test, and how to bring it into each state that is looked at.

    - `requests` get answers. `fails` and `hangs` are a configuration and a request: that call
      raises an EngineError, or gives no answer for a long time. None where no call does.
    - `shaping` are configurations and contexts that give other replies than the case's own;
      `transport` are configurations that give the same ones by other means.
    - `secret` is a key that the engine uses and nobody may see.
    - `repeats`: the same request has the same answer.
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
        """A new engine, of another configuration or context where one is given."""
        if isinstance(other, EngineContext):
            return self.kind.create(self.config, other)
        return self.kind.create(other or self.config, self.context)


def check_identity(case: EngineCase) -> None:
    """It is the same for the same replies, another for each setting that shapes one."""
    known = case.kind.identity(case.config, case.context.seed)
    own, *same = _identities(case, None, None, *case.transport)
    shaped = _identities(case, *case.shaping)
    assert own, "an identity names the model and what shapes a reply"
    assert known in ("", own), "the kind foresees another identity"
    assert set(same) == {own}, "an identity is the same for the same replies"
    assert len({own, *shaped}) == 1 + len(shaped), (
        "an identity changes with every setting that shapes a reply"
    )
    assert not case.secret or case.secret not in f"{own} {shaped}"


def check_replies(case: EngineCase) -> None:
    """Each request has a reply of text, tokens and a known ending."""
    for reply in _ask(case, case.requests):
        assert isinstance(reply, ChatReply), f"an answer is a ChatReply, not {reply!r}"
        assert reply.finish in _FINISHES, f"{reply.finish!r} is no ending"
        assert reply.finish != "stop" or reply.text.strip(), "no text is `empty`"
        assert min(reply.prompt_tokens, reply.completion_tokens, reply.latency) >= 0


def check_concurrency(case: EngineCase) -> None:
    """Asked all at once, or one after the other of a new engine, the replies are the same."""
    together = _ask(case, case.requests, at_once=True)
    apart = _ask(case, case.requests[::-1])[::-1]
    if case.repeats:
        assert [reply.text for reply in together] == [reply.text for reply in apart]


def check_failures(case: EngineCase) -> None:
    """A call without an answer raises an EngineError with a reason to count, and no secret."""
    if case.fails is None:
        return
    config, request = case.fails

    async def fail(engine: Engine) -> EngineError:
        try:
            reply = await engine.answer(request)
        except EngineError as error:
            return error
        raise AssertionError(f"this call was to fail, and gave {reply!r}")

    error = _use(case.make(config), fail)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", error.reason), (
        f"a reason is a short name such as http-429, not {error.reason!r}"
    )
    assert str(error), "an error says what is wrong"
    assert not (error.fatal and error.retryable), "what is fatal can't get better"
    message = "".join(traceback.format_exception(error))
    assert not case.secret or case.secret not in message, "an error shows the key"


def check_cancelling(case: EngineCase) -> None:
    """A call that is given up ends with that, and the engine can be closed."""
    config, request = case.hangs or (case.config, case.requests[0])

    async def give_up(engine: Engine) -> None:
        call = asyncio.ensure_future(engine.answer(request))
        await asyncio.wait([call], timeout=0.05 if case.hangs else 0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() or not case.hangs, "a cancelled call is not answered"

    _use(case.make(config), give_up)


def check_closing(case: EngineCase) -> None:
    """It can be closed twice, and without a call."""

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
    """What `act` gives; the engine is closed after it."""

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
