"""How many calls are in flight, and how many a minute, against endpoints whose behaviour is known."""

import heapq
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from toolbank.llm.admission import (
    CircuitBreaker,
    ConcurrencyLimit,
    RateLimiter,
    TokenBucket,
)
from toolbank.llm.chat import ChatReply, ChatRequest, Message
from toolbank.requests.write.config import GenerateConfig


def serve(limit, endpoint, calls, seed=0):
    """Keep as many calls in flight as the limit says; gives the limit after each that ended.

    `endpoint(in_flight, random)` gives the seconds until a reply, or those until a failure and
    its reason.
    """
    random = Random(seed)
    now, sent, in_flight, seen = 0.0, 0, [], []
    for _ in range(calls):
        while len(in_flight) < limit.now:
            sent += 1
            seconds, reason = endpoint(len(in_flight) + 1, random)
            heapq.heappush(in_flight, (now + seconds, sent, seconds, reason))
        now, _, seconds, reason = in_flight[0]
        if reason:
            limit.fail(reason, len(in_flight))
        else:
            limit.answer(seconds, len(in_flight))
        heapq.heappop(in_flight)
        seen.append(limit.now)
    return seen


def latency(random):
    return random.lognormvariate(-0.9, 0.4)


def fast(_, random):
    return latency(random), ""


def takes_64(in_flight, random):
    return (latency(random), "") if in_flight <= 64 else (0.2, "http-429")


def queues_past_64(in_flight, random):
    return latency(random) * max(1, in_flight / 64), ""


def faulty(in_flight, random):
    return (latency(random), "http-500" if random.random() < 0.3 else "")


def test_a_number_is_where_it_begins_and_never_exceeded():
    seen = serve(ConcurrencyLimit(100), fast, 5000)
    assert set(seen) == {100}


def test_auto_begins_with_eight_and_doubles_up_to_what_is_ever_used():
    limit = ConcurrencyLimit("auto")
    assert limit.now == 8
    seen = serve(limit, fast, 20_000)
    assert {8, 16, 32, 64, 128, 256, 512, 1024} == set(seen)


def one_slot(in_flight, _):
    """A server that answers one call at a time, in 40 s, and queues the others."""
    seconds = 40.0 * in_flight
    return (seconds, "") if seconds <= 120 else (120.0, "timeout")


def test_a_server_with_one_slot_gets_few_calls_at_a_time():
    for concurrency, first in (("auto", 1), ("auto", 8), (32, 1)):
        seen = serve(ConcurrencyLimit(concurrency, first), one_slot, 400)
        # Three in flight are answered in time.
        assert max(seen[60:]) <= 4
        assert sum(seen[60:]) <= 3.2 * len(seen[60:])


def test_from_one_call_it_comes_soon_to_many():
    seen = serve(ConcurrencyLimit("auto", 1), fast, 200)
    assert seen[0] == 1
    assert seen[-1] >= 64


def test_a_few_calls_that_time_out_among_many_decrease_it_little():
    def script(_, random):
        return (120.0, "timeout") if random.random() < 0.01 else (latency(random), "")

    seen = serve(ConcurrencyLimit(256), script, 20_000)
    assert min(seen) > 128


def test_it_does_not_grow_while_fewer_calls_are_made_than_may_be():
    limit = ConcurrencyLimit("auto")
    for _ in range(1000):
        limit.answer(0.4, in_flight=5)
    assert limit.now == 8


def test_one_round_trip_of_refusals_decreases_it_once():
    limit = ConcurrencyLimit(100)
    seen = []
    for _ in range(100):
        limit.fail("http-429", in_flight=100)
        seen.append(limit.now)
    assert set(seen[:99]) == {100}
    assert limit.now == 51


def test_it_settles_around_what_the_endpoint_takes():
    for start in ("auto", 1000):
        settled = serve(ConcurrencyLimit(start), takes_64, 20_000)[10_000:]
        assert min(settled) > 32
        assert max(settled) < 72


def test_auto_stays_where_more_calls_would_only_queue():
    for seed in range(5):
        seen = serve(ConcurrencyLimit("auto"), queues_past_64, 50_000, seed)
        assert 48 <= seen[-1] <= 256


def test_faults_that_have_nothing_to_do_with_the_load_are_got_used_to():
    seen = serve(ConcurrencyLimit(256), faulty, 50_000)
    assert min(seen) > 64
    assert seen[-1] > 200


def test_after_an_outage_it_comes_back_soon_to_as_many_as_there_were():
    limit = ConcurrencyLimit(256)
    serve(limit, fast, 1000)
    limit.restart()
    assert limit.now == 8
    assert serve(limit, fast, 2000)[-1] == 256


def test_it_is_never_less_than_one():
    limit = ConcurrencyLimit(4)
    for _ in range(5000):
        limit.fail("timeout", in_flight=1)
    assert limit.now >= 1


def down(breaker, at=0.0):
    while not breaker.fail(1, at):
        pass
    return breaker


def test_failures_in_a_row_are_an_outage_and_a_reply_between_them_is_none():
    breaker = CircuitBreaker(600)
    assert not any(breaker.fail(4, 0.0) for _ in range(19))
    breaker.answer()
    assert not any(breaker.fail(4, 0.0) for _ in range(19))
    assert breaker.fail(4, 0.0)
    assert (breaker.is_open, breaker.number) == (True, 1)


def test_random_faults_are_no_outage_at_any_concurrency():
    for most in (1, 8, 64, 256, 1024):
        random = Random(most)
        breaker = CircuitBreaker(600)
        # Faults come at once, and so before the replies of the same moment.
        for _ in range(200_000 // most):
            fates = [random.random() < 0.3 for _ in range(most)]
            for _ in range(sum(fates)):
                assert not breaker.fail(most, 0.0)
            if not all(fates):
                breaker.answer()


def test_one_call_at_a_time_is_made_after_2_4_8_and_at_most_30_seconds():
    breaker = CircuitBreaker(600)
    breaker.answer()
    down(breaker)
    now, waits = 0.0, []
    for _ in range(6):
        waits.append(breaker.delay(now))
        now += waits[-1]
        breaker.begin_probe()
        assert breaker.delay(now) is None
        breaker.end_probe(now)
    assert waits == [2, 4, 8, 16, 30, 30]


def request(characters):
    return ChatRequest(0, "write", (Message("user", "x" * characters),), {})


def spend(bucket, cost, seconds):
    """How much goes through a bucket, by a clock that ticks where it says to wait."""
    now, spent = 0.0, 0
    while now < seconds:
        delay = bucket.delay(cost, now)
        if delay <= 1e-9:
            bucket.take(cost, now)
            spent += cost
        now += max(delay, 1e-6)
    return spent


@given(st.integers(30, 100_000), st.integers(1, 20_000))
def test_no_minute_gets_more_than_its_share_and_a_small_burst(per_minute, cost):
    spent = spend(TokenBucket(per_minute, 0.0), cost, 60)
    burst = max(1, per_minute / 60)
    assert spent <= per_minute + burst + cost


def test_what_may_go_does_go():
    assert spend(TokenBucket(600, 0.0), 1, 60) >= 600


def test_what_was_given_back_can_be_spent():
    bucket = TokenBucket(60, 0.0)
    bucket.take(31, 0.0)
    assert bucket.delay(1, 0.0) == 31
    bucket.take(-30, 0.0)
    assert bucket.delay(1, 0.0) == 1


def test_a_call_is_estimated_by_its_prompt_and_corrected_by_its_reply():
    rates = RateLimiter(GenerateConfig(tpm=60_000), 0.0)
    estimate = rates.estimate(request(4000))
    assert estimate == 1000 + 300
    rates.take(estimate, 0.0)
    assert round(rates.delay(1000, 0.0), 1) == 1.3
    rates.correct(estimate, ChatReply("", "m", 600, 0), 0.0)
    assert round(rates.delay(1000, 0.0), 1) == 0.6
    assert rates.estimate(request(0)) < 300


def test_an_endpoint_that_counts_no_tokens_is_believed_the_estimate():
    rates = RateLimiter(GenerateConfig(tpm=60_000), 0.0)
    rates.take(1000, 0.0)
    rates.correct(1000, ChatReply("", "m"), 0.0)
    assert rates.delay(1000, 0.0) == 1


def test_the_slower_of_both_rates_holds():
    rates = RateLimiter(GenerateConfig(tpm=60_000, rpm=60), 0.0)
    rates.take(10, 0.0)
    assert rates.delay(10, 0.0) == 1
    assert RateLimiter(GenerateConfig(), 0.0).delay(10, 0.0) == 0
