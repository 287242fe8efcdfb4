import json
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from toolbank.llm.engines.openai.failures import LONGEST_WAIT, read_pause, read_wait

LIMITS = "x-ratelimit-{}-requests x-ratelimit-{}-tokens x-ratelimit-{} ratelimit-{}"
NAMES = ["retry-after", "retry-after-ms"]
NAMES += [
    name
    for part in ("remaining", "reset")
    for name in LIMITS.format(*[part] * 4).split()
]


WAITS = CORPUS / "waits"


def describe(given):
    """Seconds to wait after a refusal with these headers or this body, and after an answer."""
    if isinstance(given, str):
        assert read_wait({"retry-after": "5"}, given) == 5
        return {"given": given, "refused": read_wait({}, given)}
    wait, pause = read_wait(given), read_pause(given)
    return {"given": given, "refused": wait, "answered": pause}


@pytest.mark.parametrize("name", ["headers", "bodies"])
def test_a_call_waits_as_long_as_the_endpoint_says(name, update_corpus):
    given = json.loads((WAITS / f"{name}.json").read_text())
    expected = WAITS / f"{name}.json.tools.json"
    check_expected(expected, [*map(describe, given)], update=update_corpus)


def test_a_body_that_is_nested_too_deep_says_nothing():
    assert read_wait({}, "[" * 100_000) is None


def test_a_date_is_a_wait_from_now():
    then = time.time() + 100
    soon = formatdate(then, usegmt=True)
    assert 95 <= read_wait({"retry-after": soon}) <= 101
    assert 95 <= read_wait({"x-ratelimit-reset": str(then)}) <= 101
    assert 95 <= read_wait({"x-ratelimit-reset": str(then * 1000)}) <= 101


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
