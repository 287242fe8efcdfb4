"""A body has to come in time, however it comes."""

import asyncio
import json

from toolbank.search.serve import app as guard
from toolbank.search.serve.app import Access


def test_a_body_that_drips_is_given_up_at_one_deadline(monkeypatch):
    monkeypatch.setattr(guard, "BODY_TIME", 0.2)
    parts, sent = [], []

    async def drip():
        await asyncio.sleep(0.01)
        parts.append(b"a")
        return {"type": "http.request", "body": b"a", "more_body": len(parts) < 500}

    async def read_all(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/search",
        "headers": [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")],
    }
    counted = []
    guarded = guard.Guard(read_all, Access(), frozenset(), counted.append)
    asyncio.run(guarded(scope, drip, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"]["code"] == "request_timeout"
    assert counted == [408]
    assert len(parts) < 500
