"""What the tests of the batch engine share: requests, and a caller that replays as the loop does."""

import asyncio
from dataclasses import dataclass, field

from toolbank.bank.records import Tool
from toolbank.llm.accounts import CallCounts
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Message, PolishTask
from toolbank.llm.engines.batch.filler import BatchFiller
from toolbank.llm.engines.openai.completion import make_identity
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig

SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}


def request(attempt, stage="write"):
    task = PolishTask("draft", (Tool(name="a.b"),))
    message = Message("user", f"Request {attempt} of é€𝄞.")
    return ChatRequest(attempt, stage, (message,), SCHEMA, task)


def config(**settings):
    base = {"engine": "batch", "model": "asked-model", "retries": 2}
    return GenerateConfig(**{**base, **settings})


@dataclass
class Told:
    """What one command got: replies and errors by attempt, and the message that ended it."""

    replies: dict[int, ChatReply] = field(default_factory=dict)
    errors: dict[int, EngineError] = field(default_factory=dict)
    message: str = ""
    counts: CallCounts = field(default_factory=CallCounts)

    @property
    def texts(self):
        return {number: reply.text for number, reply in self.replies.items()}


def command(folder, requests, **settings):
    """Ask for all; go on after a round whose replies came, and end with one that waits."""
    with Journal(folder / "journal.sqlite") as journal:
        return asyncio.run(_command(folder, journal, requests, config(**settings)))


async def _command(folder, journal, requests, config):
    told = Told()
    identity = make_identity(config)
    filler = BatchFiller(config, folder, journal, identity, told.counts)
    while not told.message:
        missing = []
        for item in requests:
            key = item.key(identity)
            if reply := journal.get(key):
                told.replies[item.attempt] = reply
            elif key in filler.failures:
                told.errors[item.attempt] = filler.failures[key]
            else:
                missing.append(item)
        if not missing:
            break
        told.message = await filler.exchange(missing)
    return told


def jsonl(folder):
    return sorted(path.name for path in folder.glob("*.jsonl"))
