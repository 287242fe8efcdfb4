"""A chat-completions server that answers as a model would, after a wait drawn at random.

    python benchmarks/generation/server.py [--port 0] [--latency 0.44] [--sigma 0.5] [--seed 0]

It prints its base URL and serves until it is ended. Latencies are log-normal with that mean (seconds) and
sigma (of the logarithm); 0 answers at once. The n-th request since a reset waits the n-th latency of
the seed, so that all who send as many requests wait as long in all.

An answer is a function of the request's body: a draft with two of the tools that the request's schema (or
else its prompt) names, or a polished request, in JSON. Its words vary, so that hardly two are alike.

GET /stats tells, since the last POST /reset: `calls`, `latency_s` (the sum of the latencies drawn; divided by
the calls in flight, the least time that the calls can take), `lag_s` (the sum of how much later the answers
were sent, the server's own fault), `most_in_flight`, `span_s` (from the first request to the last answer), `first_s`
(the first request by the monotonic clock).

One process, one thread, no library.
"""

import argparse
import asyncio
import json
import math
import random
import re
import signal
import zlib
from dataclasses import asdict, dataclass
from time import perf_counter

_BACKLOG = 4096
_TOOL_LINE = re.compile(rb"\\n- ([\w.]+): ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

_OPENINGS = (
    "For the yearly report of our {place} I need",
    "Could somebody tell me, for the {place},",
    "My colleague at the {place} wants",
    "Every {when} the {place} asks us for",
    "Before the {when} meeting at the {place} I must have",
    "We run a small {place} and would like",
    "Please work out, for all that our {place} wrote down,",
    "The {place} that I help with is missing",
    "It would save the {place} much work to have",
    "Since the {when} the {place} has been asking for",
    "I keep the books of a {place} and now want",
    "What I still lack for the {place} is",
)
_WANTS = (
    "the {amount} {size} {thing} of each {unit}",
    "how far the {thing} of one {unit} are from the {size} {thing} of the others",
    "which {unit} had the {size} {thing} and by how much",
    "a table of {thing} and {other}, with one line for every {unit}",
    "the share of {thing} that every {unit} has in the {size} {other}",
    "all {thing} set against the {size} {other} of the same {unit}",
    "the {thing} put in order, from the {size} {unit} down to the last",
    "an even spread of {thing} over each {unit} that has {size} {other}",
)
_ENDINGS = (
    "so that we can plan the {other} of {amount} people.",
    "because the {other} must be known before {when}.",
    "with the {amount} {size} ones left out.",
    "and please leave the {other} of {when} as it is.",
    "for the last {amount} weeks, without those that have no {other}.",
    "and, next to it, what came in on a {when}.",
    "from the list of {amount} lines that came with the {size} letter.",
    "before {amount} of us decide on the {other}.",
)
_WORDS = {
    "place": """bakery school library orchard harbour clinic museum garage brewery nursery theatre vineyard
        laundry farm choir market dairy kennel hostel mill studio workshop archive bookshop greenhouse ferry
        hospital pharmacy stable tannery""",
    "when": """Monday Tuesday Friday Sunday spring summer autumn winter January March April June August
        October Easter Christmas harvest holiday""",
    "thing": """prices visits weights deliveries rents fines scores readings distances wages orders
        complaints seats tickets crates bottles lessons repairs calls letters harvests tides doses
        waits loans votes meals trips guests fares""",
    "other": """costs heat rain sales staff fuel stock hours noise milk grain paper water light traffic
        income damage growth speed dust salt flour wool timber honey ink glass linen coal cheese""",
    "unit": """room street month worker truck class ward field boat shelf branch team village route
        tank breed season customer household shift carriage bed ladder quarter district barrel table
        author driver singer""",
    "size": """highest smallest usual latest oldest largest lowest second longest shortest busiest
        poorest slowest quickest heaviest driest wettest newest rarest dearest""",
    "amount": """three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen twenty
        thirty forty fifty sixty seventy eighty ninety""",
}
_SLOTS = {name: tuple(words.split()) for name, words in _WORDS.items()}


@dataclass
class Stats:
    """What was served since the last reset."""

    calls: int = 0
    latency_s: float = 0.0
    lag_s: float = 0.0
    in_flight: int = 0
    most_in_flight: int = 0
    span_s: float = 0.0
    first_s: float = 0.0


class Endpoint:
    """Draws the waits, composes the answers, counts."""

    def __init__(self, latency: float, sigma: float, seed: int) -> None:
        self.latency = latency
        self.sigma = sigma
        self.seed = seed
        self.reset()

    def reset(self) -> None:
        self.stats = Stats()
        self._random = random.Random(self.seed)

    def take(self) -> float:
        """Count a request and draw its latency."""
        stats = self.stats
        if not stats.calls:
            stats.first_s = perf_counter()
        stats.calls += 1
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)
        if not self.latency:
            return 0.0
        location = math.log(self.latency) - self.sigma**2 / 2
        latency = self._random.lognormvariate(location, self.sigma)
        stats.latency_s += latency
        return latency

    def sent(self, due: float, stats: Stats) -> None:
        """Count an answer that was due at a time of the performance counter."""
        now = perf_counter()
        stats.in_flight -= 1
        stats.lag_s += max(0.0, now - due)
        stats.span_s = now - stats.first_s


class Connection(asyncio.Protocol):
    """One kept-alive connection, one request after the other."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._parts = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parts += data
        while True:
            end = self._parts.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._parts[: end + 2])
            length = _LENGTH.search(head)
            after = end + 4 + (int(length[1]) if length else 0)
            if len(self._parts) < after:
                return
            body = bytes(self._parts[end + 4 : after])
            del self._parts[:after]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        endpoint = self._endpoint
        if head.startswith(b"POST /v1/chat/completions "):
            latency = endpoint.take()
            answer = http(200, completion(body))
            due = perf_counter() + latency
            stats = endpoint.stats
            if latency:
                loop = asyncio.get_running_loop()
                loop.call_later(latency, self._send, answer, due, stats)
            else:
                self._send(answer, due, stats)
        elif head.startswith(b"GET /stats "):
            told = asdict(endpoint.stats)
            self._transport.write(http(200, json.dumps(told).encode()))
        elif head.startswith(b"POST /reset "):
            endpoint.reset()
            self._transport.write(http(200, b"{}"))
        else:
            self._transport.write(http(404, b'{"error": {"message": "not here"}}'))

    def _send(self, answer: bytes, due: float, stats: Stats) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)
        self._endpoint.sent(due, stats)


def completion(body: bytes) -> bytes:
    """A chat completion for the body of a request."""
    choice = (zlib.crc32(body) << 32) | zlib.adler32(body)
    if b'already_good"' in body or b'already_good\\"' in body:
        query = compose(choice)
        answer = f'{{\\"already_good\\": false, \\"reason\\": \\"Said as one goal.\\", \\"query\\": \\"{query}\\"}}'
    else:
        first, second = (name.decode() for name in two_tools(body, choice))
        answer = (
            f'{{\\"declined\\": false, \\"reason\\": \\"\\", \\"tools\\": [\\"{first}\\", \\"{second}\\"], '
            '\\"explanation\\": \\"The second takes what the first one gives.\\", '
            f'\\"draft\\": \\"{compose(choice)}\\"}}'
        )
    sent, came = len(body) // 4, len(answer) // 4
    return (
        f'{{"id": "chatcmpl-{choice:016x}", "object": "chat.completion", "created": 1760000000, '
        '"model": "mock", "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null, '
        f'"message": {{"role": "assistant", "refusal": null, "content": "{answer}"}}}}], '
        f'"usage": {{"prompt_tokens": {sent}, "completion_tokens": {came}, '
        f'"total_tokens": {sent + came}}}}}'
    ).encode()


def two_tools(body: bytes, choice: int) -> tuple[bytes, bytes]:
    """Two of the names that the schema of a request allows, or else that its prompt lists."""
    start = body.find(b'"enum"')
    if start >= 0:
        listed = body[body.index(b"[", start) + 1 : body.index(b"]", start)]
        names = [name.strip(b' "') for name in listed.split(b",")]
    else:
        names = _TOOL_LINE.findall(body)
    if len(names) < 2:
        return b"first", b"second"
    first = choice % len(names)
    return names[first], names[first - 1]


def compose(choice: int) -> str:
    """An English request of 15 to 40 words; another one for almost every number."""
    numbers = random.Random(choice)
    pick = numbers.choice
    pattern = f"{pick(_OPENINGS)} {pick(_WANTS)}, {pick(_ENDINGS)}"
    parts = pattern.split("{")
    words = [parts[0]]
    for part in parts[1:]:
        slot, _, rest = part.partition("}")
        words += pick(_SLOTS[slot]), rest
    return "".join(words)


def http(status: int, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (status, len(body))
    ) + body


async def serve(port: int, endpoint: Endpoint) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(
        lambda: Connection(endpoint), "127.0.0.1", port, backlog=_BACKLOG
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.44)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(serve(given.port, Endpoint(given.latency, given.sigma, given.seed)))


if __name__ == "__main__":
    main()
