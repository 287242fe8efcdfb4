"""An answer that unpacks to far more than came is no way around the bound on answers."""

import asyncio
import gzip
import tracemalloc

import pytest

from tests.search.calls.apis import serving_answers
from toolbank.bank.records import HttpCall
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import send
from toolbank.search.calls.mcp import send_to_mcp
from toolbank.search.calls.request import prepare_request

UNPACKED = 50_000_000
BOMB = gzip.compress(b'"' + b"x" * UNPACKED + b'"', 1)


@pytest.fixture(scope="module")
def bombs():
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with serving_answers(lambda _: (200, headers, BOMB)) as serving:
        yield serving


@pytest.fixture
def memory():
    """What Python has taken at most since, in bytes."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_an_mcp_server_may_not_compress(bombs):
    address, came = bombs
    target = Target(mcp=address, private=True)
    with pytest.raises(CallError, match="compressed"):
        asyncio.run(send_to_mcp("forecast", {}, target))
    assert came[-1]["Accept-Encoding"] == "identity"


def test_an_api_is_bounded_in_what_it_unpacks_to(bombs, memory):
    address, _ = bombs
    target = Target(url=address, private=True)
    request = prepare_request(address, HttpCall(method="GET", path="/"), {})
    with pytest.raises(CallError, match="larger than 1,000,000 bytes"):
        asyncio.run(send(request, target))
    assert memory() < UNPACKED / 2
