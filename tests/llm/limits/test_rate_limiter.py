from hypothesis import given
from hypothesis import strategies as st

from toolbank.llm.admission import RateLimiter, TokenBucket
from toolbank.llm.chat import ChatReply, ChatRequest, Message
from toolbank.requests.write.config import GenerateConfig


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
