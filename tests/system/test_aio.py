import asyncio
import os
import signal
import threading

import pytest

from toolbank.system import aio
from toolbank.system.errors import InputError


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


async def fail():
    raise InputError("no")


def in_a_loop(function):
    """Call a plain function where a loop runs, as a notebook does."""

    async def cell():
        return function()

    return asyncio.run(cell())


def test_a_coroutine_runs_with_and_without_a_loop():
    for run in (lambda function: function(), in_a_loop):
        assert run(lambda: aio.run(double(2))) == 4
        with pytest.raises(InputError):
            run(lambda: aio.run(fail()))


def test_an_interrupt_in_a_notebook_lets_the_coroutine_clean_up():
    running, cleaned = threading.Event(), threading.Event()

    async def wait():
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    def interrupt():
        running.wait()
        os.kill(os.getpid(), signal.SIGINT)

    # A notebook's kernel leaves the signal to Python, and so does this loop.
    async def cell():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            aio.run(wait())

    asyncio.run(cell())
    assert cleaned.is_set()


def test_interrupts_can_be_handled_in_the_loop_and_are_as_before_after_it():
    async def wait(number):
        handled = asyncio.Event()
        with aio.interrupts(handled.set):
            os.kill(os.getpid(), number)
            await handled.wait()
        return True

    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        assert aio.run(wait(number))
        assert signal.getsignal(number) == before


def test_what_a_script_runs_beside_itself_goes_on_ignoring_ctrl_c():
    """Its shell has it ignored, which is inherited."""

    async def wait():
        asked, handled = [], asyncio.Event()

        def handle():
            asked.append("interrupt")
            handled.set()

        with aio.interrupts(handle):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
            assert not asked
            os.kill(os.getpid(), signal.SIGTERM)
            await handled.wait()
        return signal.getsignal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert aio.run(wait()) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_a_loop_runs_already_interrupts_are_left_as_they_are():
    async def look():
        with aio.interrupts(lambda: None):
            return signal.getsignal(signal.SIGTERM)

    assert in_a_loop(lambda: aio.run(look())) == signal.getsignal(signal.SIGTERM)
