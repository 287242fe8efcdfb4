"""What becomes of calls that fail: tries, pauses and outages."""

import asyncio
from itertools import pairwise

import pytest

from tests.llm.virtual import Endpoint, ask_all, broken, good, kinds
from toolbank.llm.chat import ChatReply, EngineError
from toolbank.llm.stop import StoppedError
from toolbank.system.errors import ToolbankError


def failing(*attempts, until=float("inf"), **changes):
    """An endpoint that fails the calls of some attempts, or of all, up to a moment."""

    def script(request, now):
        fails = not attempts or request.attempt in attempts
        return broken(**changes) if fails and now < until else good()

    return script


def test_a_call_is_tried_so_often_again_and_each_try_is_kept_with_its_reason(capsys):
    engine = Endpoint(failing(3))
    pool, journal, got = ask_all(engine, 8, retries=2)
    assert kinds(got).count(EngineError) == 1
    assert got[3].reason == "http-500"
    assert [failure.final for failure in journal.failed] == [False, False, True]
    assert {failure.attempt for failure in journal.failed} == {3}
    assert pool.counts.retries == {"http-500": 2}
    assert pool.counts.failures == {"http-500": 1}
    assert "down" not in capsys.readouterr().err


def test_waits_between_tries_grow_and_are_the_same_in_each_run():
    def times():
        engine = Endpoint(failing(0), seconds=0.0)
        ask_all(engine, 1, retries=10)
        return [time for time, _ in engine.calls]

    first = times()
    assert first == times()
    waits = [b - a for a, b in pairwise(first)]
    assert len(waits) == 10
    assert all(0 <= wait <= min(30, 0.5 * 2**n) for n, wait in enumerate(waits))
    assert max(waits) > 5


def test_a_call_that_waits_for_its_next_try_holds_no_place():
    engine = Endpoint(failing(0, until=5.0))
    ask_all(engine, 5, concurrency=1, retries=9)
    order = [attempt for _, attempt in engine.calls]
    assert order[:3] != [0, 0, 0]
    assert sorted(set(order)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": 10, "retries": 2}, "10 s (the setting `timeout`)"),
        ({"timeout": 40, "total_timeout": 100, "retries": 50}, "`total_timeout`"),
    ],
)
def test_a_call_that_takes_too_long_is_ended_and_tried_again(settings, said):
    engine = Endpoint(good, seconds=60.0)
    _, _, got = ask_all(engine, 1, **settings)
    assert got[0].reason == "timeout"
    assert said in str(got[0])
    assert (len(engine.calls), engine.in_flight) == (3, 0)


def test_what_the_endpoint_asks_one_to_wait_all_wait():
    def script(request, now):
        if request.attempt == 0 and now < 5:
            return broken(reason="http-429", retry_after=20.0)
        return good()

    engine = Endpoint(script)
    _, _, got = ask_all(engine, 12, concurrency=4)
    assert kinds(got) == [ChatReply] * 12
    times = [time for time, _ in engine.calls]
    assert times[:4] == [0] * 4
    assert min(times[4:]) >= 21


def limited(most, window, told=True):
    """An endpoint with a rate limit: `most` replies in any `window` seconds."""
    replied = []

    def script(request, now):
        replied[:] = [moment for moment in replied if moment > now - window]
        if len(replied) < most:
            replied.append(now)
            return good()
        wait = replied[0] + window - now + 0.01 if told else None
        return broken(reason="http-429", retry_after=wait)

    return script


@pytest.mark.parametrize("told", [True, False])
def test_a_rate_limit_uses_up_no_try_and_is_no_outage(told, capsys):
    engine = Endpoint(limited(3, 8.0, told), seconds=0.1)
    pool, _, got = ask_all(engine, 40, concurrency=16, retries=1)
    assert kinds(got) == [ChatReply] * 40
    assert "down" not in capsys.readouterr().err
    assert pool.counts.failures == {}


def test_after_a_pause_calls_are_released_one_at_a_time(capsys):
    engine = Endpoint(limited(4, 30.0), seconds=0.1)
    _, _, got = ask_all(engine, 60, concurrency=32)
    assert kinds(got) == [ChatReply] * 60
    # 15 windows of four: the first refuses those in flight, the others those released too early.
    assert len(engine.calls) - 60 <= 28 + 14 * 5
    assert capsys.readouterr().err.count("asks to wait") == 1


def test_a_rate_limit_that_lets_nothing_through_ends_the_run():
    engine = Endpoint(failing(reason="http-429", retry_after=20.0))
    pool, _, got = ask_all(engine, 3, concurrency=1, max_outage=100)
    assert kinds(got) == [StoppedError] * 3
    with pytest.raises(ToolbankError, match="max_outage"):
        raise pool.stop.error
    assert engine.calls[-1][0] == pytest.approx(100, abs=25)


def test_a_reply_can_ask_for_a_pause_too():
    replies = iter([ChatReply("{}", "m", pause=7.0)])
    engine = Endpoint(lambda *_: next(replies, good()))
    ask_all(engine, 3, concurrency=1)
    assert [time for time, _ in engine.calls] == [0, 8, 9]


def test_a_pause_longer_than_an_outage_may_be_ends_the_run():
    engine = Endpoint(failing(reason="http-429", retry_after=3600.0))
    pool, _, got = ask_all(engine, 3, concurrency=1)
    assert kinds(got) == [StoppedError] * 3
    with pytest.raises(ToolbankError, match="max_outage"):
        raise pool.stop.error
    assert len(engine.calls) == 1


def dies_at(seconds, for_seconds):
    def script(request, now):
        if seconds <= now < seconds + for_seconds:
            return broken(reason="connection")
        return good()

    return script


@pytest.mark.parametrize(
    ("concurrency", "calls"), [(1, 100), (8, 1000), (256, 5000), ("auto", 1000)]
)
def test_an_endpoint_that_dies_for_a_minute_fails_no_call(concurrency, calls, capsys):
    engine = Endpoint(dies_at(2, for_seconds=60), seconds=0.2)
    _, _, got = ask_all(engine, calls, concurrency=concurrency)
    assert kinds(got) == [ChatReply] * calls
    told = capsys.readouterr().err
    assert told.count("the endpoint is down") == 1
    assert "http://x: broken" in told
    assert told.count("the endpoint answers again") == 1
    probes = [time for time, _ in engine.calls if 30 < time < 62]
    assert len(probes) <= 3


def test_the_probes_of_an_outage_are_of_one_row_after_another():
    engine = Endpoint(dies_at(0, for_seconds=25), seconds=0.1)
    ask_all(engine, 100, concurrency=8)
    probes = [attempt for time, attempt in engine.calls if 5 < time < 25]
    assert len(probes) == len(set(probes)) >= 2


def test_an_outage_that_lasts_too_long_ends_the_run():
    engine = Endpoint(dies_at(10, for_seconds=1e9))
    pool, journal, got = ask_all(engine, 500, concurrency=8, max_outage=100)
    assert set(kinds(got)) == {ChatReply, StoppedError}
    assert len(journal.replies) == kinds(got).count(ChatReply)
    # What the engine says of it is there in full, its advice too.
    assert str(broken()) in str(pool.stop.error)
    assert "kept" in str(pool.stop.error)
    assert 110 <= engine.calls[-1][0] < 115


def test_an_endpoint_that_was_never_there_is_given_up_after_half_a_minute():
    engine = Endpoint(failing(reason="connection"), seconds=0.01)
    pool, _, got = ask_all(engine, 500)
    assert kinds(got) == [StoppedError] * 500
    assert 29 < engine.calls[-1][0] < 32
    assert pool.stop.error is not None


def test_a_refused_key_ends_the_run_once_what_is_in_flight_has_finished():
    def script(request, now):
        if request.attempt == 0:
            return broken(reason="refused-key", retryable=False, fatal=True)
        return good()

    engine = Endpoint(script)
    pool, journal, got = ask_all(engine, 40, concurrency=5)
    assert kinds(got) == [EngineError, *[ChatReply] * 4, *[StoppedError] * 35]
    assert len(journal.replies) == 4
    assert pool.stop.error is got[0]


def test_a_stop_gives_up_the_tries_that_wait():
    engine = Endpoint(failing())

    async def stop(pool):
        await asyncio.sleep(1.001)
        pool.stop.end("interrupt", "enough")

    _, journal, got = ask_all(engine, 4, after=stop, concurrency=4)
    assert kinds(got) == [StoppedError] * 4
    assert len(engine.calls) < 8
    assert not any(failure.final for failure in journal.failed)


@pytest.mark.parametrize(
    ("outcome", "said", "calls"),
    [
        (KeyError("choices"), "endpoint: KeyError: 'choices'", 1),
        ("text", "TypeError: returned 'str'", 1),
    ],
)
def test_what_an_engine_of_a_user_may_do_is_a_failed_call(outcome, said, calls):
    engine = Endpoint(lambda *_: outcome)
    _, journal, got = ask_all(engine, 1, retries=2)
    assert got[0].reason == "engine-error"
    assert said in str(got[0])
    assert len(engine.calls) == calls
    assert not journal.replies


def test_a_time_out_of_an_engine_of_a_user_is_charged_as_one():
    engine = Endpoint(lambda *_: TimeoutError("slow"))
    _, _, got = ask_all(engine, 1, retries=2)
    assert got[0].reason == "timeout"
    assert got[0].prompt_tokens
    assert len(engine.calls) == 3
