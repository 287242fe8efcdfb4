import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.llm.engines.openai.failures import LONGEST_WAIT, read_pause, read_wait

LIMITS = "x-ratelimit-{}-requests x-ratelimit-{}-tokens x-ratelimit-{} ratelimit-{}"
NAMES = ["retry-after", "retry-after-ms"]
NAMES += [
    name
    for part in ("remaining", "reset")
    for name in LIMITS.format(*[part] * 4).split()
]


def limit(kind, remaining, reset):
    name = f"x-ratelimit-{{}}-{kind}".format
    return {name("remaining"): str(remaining), name("reset"): reset}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "2", "retry-after-ms": "350"}, 0.35),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "1e308"}, LONGEST_WAIT),
        ({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}, LONGEST_WAIT),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1h1m1.5s"}, 3661.5),
        ({"x-ratelimit-reset": "1447876800000"}, 0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "30"}, 30),
        # Which of two limits was met: the one that is used up, else the one that is over first.
        (limit("requests", 12, "1s") | limit("tokens", 0, "9s"), 9),
        (limit("requests", 12, "10s") | limit("tokens", 40, "3s"), 3),
    ],
)
def test_a_refused_call_waits_as_long_as_the_headers_say(headers, seconds):
    wait = read_wait(headers)
    assert wait == (None if seconds is None else pytest.approx(seconds))


ROUTED = '{"error": {"metadata": {"headers": {"Retry-After": "9"}, "raw": "wait 2 s"}}}'


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ('[{"error": {"details": [{"retryDelay": "34.07s"}]}}]', 34.07),
        ('{"error": {"message": "slow", "retry_after": 2.5}}', 2.5),
        ('{"detail": "x", "retryAfter": "12"}', 12),
        (ROUTED, 9),
        ("Rate limit reached. Please try again in 7m12.48s. Visit", 432.48),
        ("Please try again in 20ms.", 0.02),
        ("Please retry after 8 seconds.", 8),
        ("Please wait 1 minute before the next request", 60),
        ("Please retry your request in 1 hour", 3600),
        ("Please retry in 3.211s.", 3.211),
        ("You have 3 retries left", None),
        ("Too many requests, try again later (limit: 20 a minute)", None),
        ('{"error": {"message": "busy", "code": 429}}', None),
        ("[" * 100_000, None),
    ],
)
def test_without_headers_it_waits_as_long_as_the_body_says(body, seconds):
    wait = read_wait({}, body)
    assert wait == (None if seconds is None else pytest.approx(seconds))
    assert read_wait({"retry-after": "5"}, body) == 5


def test_a_date_is_a_wait_from_now():
    then = time.time() + 100
    soon = formatdate(then, usegmt=True)
    assert 95 <= read_wait({"retry-after": soon}) <= 101
    assert 95 <= read_wait({"x-ratelimit-reset": str(then)}) <= 101
    assert 95 <= read_wait({"x-ratelimit-reset": str(then * 1000)}) <= 101


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0"}, 0),
        ({"x-ratelimit-reset-requests": "4s"}, 0),
        ({"retry-after": "5"}, 0),
        ({"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "60"}, 0),
        (limit("requests", 1, "4s"), 0),
        (limit("requests", 0, "4s"), 4),
        (
            limit("requests", 0, "4s")
            | {"ratelimit-remaining": "0", "ratelimit-reset": "11"},
            11,
        ),
    ],
)
def test_an_answered_call_pauses_all_only_where_a_limit_is_used_up(headers, seconds):
    assert read_pause(headers) == seconds


VALUES = st.one_of(
    st.text(max_size=40),
    st.floats().map(str),
    st.integers().map(str),
    st.from_regex(r"[-+]?[0-9.]{1,400}(ms|s|m|h|d|us)?", fullmatch=True),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,5} [A-Z][a-z]{2} [0-9]{1,7} [0-9:]{5,9} .{0,9}",
        fullmatch=True,
    ),
    st.datetimes().map(lambda date: date.strftime("%a, %d %b %Y %H:%M:%S -0000")),
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_whatever_the_headers_hold_the_wait_is_a_number_of_seconds_up_to_a_day(headers):
    assert 0 <= read_pause(headers) <= LONGEST_WAIT
    wait = read_wait(headers)
    assert wait is None or 0 <= wait <= LONGEST_WAIT
