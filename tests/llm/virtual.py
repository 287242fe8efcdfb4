"""Calls in virtual time: a loop whose clock leaps to the next moment at which anything happens."""

import asyncio
import selectors
from contextlib import suppress
from unittest import mock

from tests.engines import kind_of
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Message, PolishTask
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Failure
from toolbank.llm.pool import Pool
from toolbank.llm.stop import StoppedError
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import ToolbankError


class _LeapingSelector(selectors.SelectSelector):
    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._clock = _LeapingSelector()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


def run(coroutine):
    """Run a coroutine to its end in virtual time, which begins at 0."""
    loop = _VirtualLoop()
    with (
        mock.patch("toolbank.llm.admission.monotonic", loop.time),
        mock.patch("toolbank.llm.caller.monotonic", loop.time),
        mock.patch("toolbank.llm.pool.monotonic", loop.time),
    ):
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, 100_000))
        finally:
            loop.close()


class Endpoint:
    """An engine whose `script(request, now)` gives a reply, or an error to raise, after 1 s.

    `calls` holds the virtual time and attempt of each call.
    """

    name = "endpoint"
    model = "m"
    identity = "endpoint"
    offers = None

    def __init__(self, script, seconds=1.0):
        self.script = script
        self.seconds = seconds
        self.calls = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def answer(self, request):
        loop = asyncio.get_running_loop()
        self.calls.append((loop.time(), request.attempt))
        outcome = self.script(request, loop.time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def close(self):
        pass


class Memory:
    """A journal that keeps nothing past the test."""

    def __init__(self):
        self.replies = {}
        self.failed = []

    def get(self, key):
        return self.replies.get(key)

    async def borrow(self, key):
        """No run is beside this one."""

    async def put(self, key, identity, request, reply):
        self.replies[key] = reply

    async def put_failure(self, key, identity, request, error, *, final=False):
        attempt, stage, reason = request.attempt, request.step, error.reason
        failure = Failure(key, attempt, stage, reason, str(error), final, identity)
        self.failed.append(failure)

    async def flush(self):
        pass

    def usage(self):
        return ()


def good(request=None, now=None):
    return ChatReply("{}", "m", 10, 5)


def broken(**changes):
    changes = {"reason": "http-500", "retryable": True, **changes}
    return EngineError("http://x: broken", **changes)


def request(attempt):
    task = PolishTask("draft", (Tool(name="a.b"),))
    messages = (Message("user", "x" * 400),)
    return ChatRequest(attempt, "polish", messages, {"type": "object"}, task)


def kinds(got):
    return [type(one) for one in got]


def make_pool(engine, journal=None, **settings):
    config = GenerateConfig(model="m", **settings)
    return Pool(kind_of(engine), config, journal or Memory(), EngineContext())


async def carry(pool, attempts, after=None):
    """Carry coroutines to their ends; the error that the run ends with is in `pool.stop`.

    `after(pool)` runs beside them.
    """
    waiting = iter(attempts)
    with suppress(ToolbankError):
        async with pool.working():
            beside = asyncio.create_task(after(pool)) if after else None
            await pool.carry(lambda: next(waiting, None))
            if beside is not None:
                beside.cancel()


def ask_all(engine, calls, after=None, **settings):
    """Attempts of a call each; gives the pool, its journal, and a reply or error for each.

    Those that were not begun are stopped.
    """
    got = [StoppedError()] * calls

    async def ask(pool, number):
        with pool.attempt() as calls:
            try:
                got[number] = await calls.ask(request(number))
            except Exception as error:
                got[number] = error

    async def talk():
        pool = make_pool(engine, **settings)
        await carry(pool, (ask(pool, n) for n in range(calls)), after)
        return pool

    pool = run(talk())
    return pool, pool._journal, got
