"""An endpoint in a process of its own, which outlives the runs that are killed.

    python -m tests.servers.kill LOG

It prints its URL, and writes the digest of each request into LOG before it answers. What it says
in the end depends on the request alone, so that a run comes out the same however often it is
killed: good answers, and a fifth that can't be used. Three tries in ten fail first, in every way
but time-outs, never three in a row.
"""

import hashlib
import json
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.servers.chat import Answer
from tests.servers.faults import FAULTS, send
from tests.servers.wire import WireServer
from tests.world import good_reply

_UNUSABLE, _FAILED = 0.2, 0.3
_LONGEST = 0.1


def digest(messages):
    """The name of a request, by its messages as the body and the journal have them."""
    pairs = [[message["role"], message["content"]] for message in messages]
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def stage_of(call):
    if "<request-a>" in call.prompt:
        return "judge"
    if call.asked_for:
        return "ask"
    return "polish" if call.asks_polish else "write"


def good_answer(call, random):
    if stage_of(call) == "judge":
        return {"reason": "it reads well", "winner": random.choice(["A", "B", "tie"])}
    return good_reply(call)


class Script:
    def __init__(self, log):
        self._log = log.open("a")
        self._asked = Counter()
        self._tries = Random(0)
        ignored = ("", "timeout")
        self._failing = [one for one in FAULTS.values() if one.reason not in ignored]
        self._unusable = [
            fault
            for name, fault in FAULTS.items()
            if not fault.reason and "10 MB" not in name
        ]

    def __call__(self, call):
        name = digest(call.body["messages"])
        self._log.write(f"{name}\n")
        self._log.flush()
        self._asked[name] += 1
        random = Random(name)
        good = good_answer(call, random)
        if self._asked[name] % 3 and self._tries.random() < _FAILED:
            wire = self._tries.choice(self._failing).make(call, good)
        elif random.random() < _UNUSABLE:
            stages = ("", stage_of(call))
            fits = [fault for fault in self._unusable if fault.stage in stages]
            wire = random.choice(fits).make(call, good)
        else:
            wire = send(Answer.json(good))
        return replace(wire, pause=self._tries.random() * _LONGEST)


if __name__ == "__main__":
    with WireServer(Script(Path(sys.argv[1]))) as server:
        print(server.url, flush=True)
        threading.Event().wait()
