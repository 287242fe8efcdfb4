"""An endpoint of which a share of the answers are faults, of every kind there is.

    script = FaultyScript(write, seed=1)
    with WireServer(script) as server:
        ...
    script.failed["http-429"], script.replied

Whether an answer is a fault is drawn from the seed, the request and how often it came; the kinds
are dealt in turn, so that each comes up.
"""

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from random import Random

from tests.servers.chat import Answer
from tests.servers.wire import Wire

# Longer than the calls of any test may take.
HANG = 60.0


@dataclass(frozen=True)
class Fault:
    """`reason` is that of the failed try; "" where there is a reply, which is to be journaled."""

    make: Callable
    reason: str = ""
    stage: str = ""


def send(answer, **headers):
    return Wire.http(answer.body, answer.status, {**answer.headers, **headers})


def _fail(status, **headers):
    wire = send(Answer.error(status, "no", **headers))
    return Fault(lambda *_: wire, f"http-{status}")


def _sent(change, reason=""):
    """A good answer's body, changed on its way."""
    return Fault(lambda _, good: change(Answer.json(good).body), reason)


def _http(reason="", excess=0, end="keep", **headers):
    """A good answer with other headers; Content-Length exceeds it by `excess`."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def change(body):
        return Wire.http(body, headers=headers, length=len(body) + excess, end=end)

    return _sent(change, reason)


def _instead(body, reason):
    return Fault(lambda *_: Wire.http(body), reason)


def _said(change, stage=""):
    """Another object than was asked for, in a good answer."""
    return Fault(lambda call, good: send(Answer.json(change(call, good))), "", stage)


def _text(text, **how):
    wire = send(Answer.text(text, **how))
    return Fault(lambda *_: wire)


def _drip(body, pieces, pause):
    (whole,) = Wire.http(body).pieces
    size = len(whole) // pieces + 1
    parts = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    return Wire(parts, pause)


def _packed(body):
    return Wire.http(gzip.compress(body), headers={"Content-Encoding": "gzip"})


FAULTS = {
    "429 with Retry-After": _fail(429, Retry_After="0.05"),
    "429 without Retry-After": _fail(429),
    "429 with a reset": _fail(429, x_ratelimit_reset_requests="20ms"),
    "500": _fail(500),
    "503 with Retry-After": _fail(503, Retry_After="0"),
    "reset": Fault(lambda *_: Wire((), end="reset"), "connection"),
    "closed": Fault(lambda *_: Wire((), end="close"), "connection"),
    "reset in the body": _sent(
        lambda body: Wire.http(body[:90], length=len(body), end="reset"), "connection"
    ),
    "Content-Length too large": _http("connection", excess=9, end="close"),
    "Content-Length too small": _http("connection", excess=-9, end="close"),
    "hangs": Fault(lambda *_: Wire((b"HTTP/1.1 200 OK\r\n",), HANG), "timeout"),
    "hangs in the body": _sent(lambda body: _drip(body, 2, HANG), "timeout"),
    "drips for ever": _sent(lambda body: _drip(body, 1000, 0.1), "timeout"),
    "drips": _sent(lambda body: _drip(body, 5, 0.05)),
    "truncated body": _sent(lambda body: Wire.http(body[:-60]), "not-json-response"),
    "no body": _instead(b"", "not-json-response"),
    "no choices": _instead(b'{"choices": null}', "not-json-response"),
    "HTML": Fault(lambda *_: send(Answer.html()), "web-page"),
    "invalid UTF-8": _sent(
        lambda body: Wire.http(body.replace(b"reason", b"\xff\xfe")),
        "not-json-response",
    ),
    "a stream": _sent(
        lambda body: Wire.chunked([b"data: ", body, b"\n\n"]), "stream-in-reply"
    ),
    "an error in a good answer": _instead(
        b'{"error": {"message": "busy"}}', "error-in-reply"
    ),
    "unknown encoding": _http("unknown-encoding", Content_Encoding="zz"),
    "broken gzip": _http("broken-encoding", Content_Encoding="gzip"),
    "gzip": _sent(_packed),
    "chunks": _sent(lambda body: Wire.chunked([body[:50], body[50:]])),
    "a used-up limit": _http(
        x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="20ms"
    ),
    "10 MB": Fault(lambda *_: send(Answer.text("x" * 10_000_000))),
    "10 MB, packed": Fault(lambda *_: _packed(Answer.text("x" * 10_000_000).body)),
    "truncated content": Fault(
        lambda _, good: send(Answer.text(json.dumps(good)[:-40]))
    ),
    "cut off": _text('{"declined": false, "rea', finish_reason="length"),
    "prose instead": _text("I would rather not answer in JSON."),
    "prose around": Fault(
        lambda _, good: send(
            Answer.json(good, before="Sure!\n```json\n", after="\n```\nBye.")
        )
    ),
    "empty": _text(""),
    "nothing": _text(None),
    "refusal": _text(None, refusal="I can't help with that."),
    "filtered": _text("", finish_reason="content_filter"),
    "another schema": _said(lambda *_: {"wish": "another schema"}),
    "a lone surrogate": _said(
        lambda _, good: {**good, "reason": "\ud800", "explanation": "\udfff"}
    ),
    "unknown tools": _said(
        lambda call, good: {**good, "tools": ["no_such_tool", call.offered[0]]}, "write"
    ),
    "too few tools": _said(
        lambda call, good: {**good, "tools": call.offered[:1]}, "write"
    ),
    "too many tools": _said(
        lambda call, good: {**good, "tools": call.offered}, "write"
    ),
    "declined": _said(
        lambda _, good: {**good, "declined": True, "reason": "nothing fits"}, "write"
    ),
}


def digest(call):
    """The name of a request, whatever its order of keys."""
    return hashlib.sha256(json.dumps(call.body, sort_keys=True).encode()).hexdigest()


class FaultyScript:
    """Answers as `write` says, but for a share of faults, and keeps count of what it sent.

    `failed` counts failed tries by reason, and `replied` replies by request: each is worth being
    kept, so none may be asked for again. `sent` counts faults by name.
    """

    def __init__(self, write, seed, share=0.3):
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.replied: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._write = write
        self._seed = seed
        self._share = share
        self._decks = {
            stage: cycle(
                [name for name, fault in FAULTS.items() if fault.stage in ("", stage)]
            )
            for stage in ("write", "polish")
        }

    def __call__(self, call):
        name = digest(call)
        self.asked[name] += 1
        good = self._write(call)
        draw = Random(f"{self._seed}:{name}:{self.asked[name]}").random()
        if draw >= self._share:
            self.replied[name] += 1
            return send(Answer.json(good))
        kind = next(self._decks["polish" if call.asks_polish else "write"])
        fault = FAULTS[kind]
        self.sent[kind] += 1
        if fault.reason:
            self.failed[fault.reason] += 1
        else:
            self.replied[name] += 1
        return fault.make(call, good)
