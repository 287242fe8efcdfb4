"""What the tests of the batch engine share: requests, and a caller that goes on as the loop does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolbank.bank.records import Tool
from toolbank.chat.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Message,
    NotYet,
    PolishTask,
)
from toolbank.generate.config import GenerateConfig
from toolbank.llm.engines.batch.engine import BatchEngine

SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}


def request(attempt: int, stage: str = "write") -> ChatRequest:
    task = PolishTask("draft", (Tool(name="a.b", kind="function"),))
    message = Message("user", f"Request {attempt} of é€𝄞.")
    return ChatRequest(attempt, stage, (message,), SCHEMA, task)


def config(**settings) -> GenerateConfig:
    return GenerateConfig(
        **{"engine": "batch", "model": "asked-model", "retries": 2, **settings}
    )


@dataclass
class Told:
    """What one command got: replies and errors by attempt, and the message that ended it."""

    replies: dict[int, ChatReply] = field(default_factory=dict)
    errors: dict[int, EngineError] = field(default_factory=dict)
    message: str = ""

    @property
    def texts(self) -> dict[int, str]:
        return {number: reply.text for number, reply in self.replies.items()}


def command(folder: Path, requests: Sequence[ChatRequest], **settings) -> Told:
    """Ask for all; go on after a round whose replies came, and end with one that waits."""
    return asyncio.run(_command(folder, requests, settings))


async def _command(folder, requests, settings):
    engine = BatchEngine(config(**settings), folder)
    told = Told()
    pending = list(requests)
    try:
        while pending:
            taken, pending = pending, []
            for item in taken:
                try:
                    told.replies[item.attempt] = await engine.answer(item)
                except NotYet:
                    pending.append(item)
                except EngineError as error:
                    told.errors[item.attempt] = error
            if pending:
                told.message = await engine.end_round()
                if told.message:
                    return told
    finally:
        await engine.close()
    return told


def jsonl(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jsonl"))
