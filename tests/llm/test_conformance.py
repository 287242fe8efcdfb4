"""Every engine does what all engines have to do."""

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.servers.chat import Answer, ChatServer
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Message, WriteTask
from toolbank.llm.engines import ENGINES
from toolbank.llm.engines.kind import EngineContext, EngineKind
from toolbank.requests.write.config import GenerateConfig
from toolbank.testing.engines import CHECKS, EngineCase, polish_request

KEY = "sk-test-5f1c9a"
TOOLS = tuple(
    Tool(name=f"shop.{verb}_sales", summary=f"{verb} the sales.")
    for verb in ("sort", "count", "sum", "plot", "filter", "merge", "rank", "save")
)


def changed(config, *changes):
    return [config.model_copy(update=change) for change in changes]


@pytest.fixture
def openai(monkeypatch):
    """A real server on loopback, which answers with the last words of a prompt."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ended = threading.Event()

    def script(call):
        assert call.headers["authorization"] == f"Bearer {KEY}"
        if call.body["model"] == "refused":
            return Answer.error(401, f"Incorrect key: {KEY}")
        if call.body["model"] == "silent":
            ended.wait(60)
        return Answer.json({"query": call.prompt[-60:]})

    with ChatServer(script) as server:
        config = GenerateConfig(base_url=server.url, model="m")
        refused, silent = changed(config, {"model": "refused"}, {"model": "silent"})
        yield EngineCase(
            ENGINES.find("openai", ""),
            config,
            shaping=changed(
                config,
                *({"model": "other"}, {"temperature": 0.1}, {"max_tokens": 7}),
                {"parameters": {"top_p": 0.5}},
            ),
            transport=changed(
                config,
                {"base_url": "http://127.0.0.1:1/v1", "concurrency": 2},
                {"timeout": 5, "retries": 0, "rpm": 9, "tpm": 9, "max_outage": 1},
            ),
            fails=(refused, polish_request(0)),
            hangs=(silent, polish_request(0)),
            secret=KEY,
        )
        ended.set()


@pytest.fixture
def vllm(llms):
    """The adapter, over a stand-in for vLLM."""
    config = GenerateConfig(engine="vllm", model="small")

    def request(attempt=0, **prompt):
        message = Message("user", json.dumps({"text": f"number {attempt}", **prompt}))
        return replace(polish_request(attempt), messages=(message,))

    shaping = [{"options": {"max_model_len": 9}}, {"parameters": {"top_p": 0.5}}]
    transport = {"options": {"tensor_parallel_size": 4}, "concurrency": 3}
    return EngineCase(
        ENGINES.find("vllm", ""),
        config,
        requests=[request(attempt, steps=9 - attempt) for attempt in range(8)],
        shaping=[
            *changed(config, *shaping, {"temperature": 0.1}),
            EngineContext(seed=1),
        ],
        transport=changed(config, transport),
        fails=(config, request(refuse="the prompt is too long")),
        hangs=(config, request(steps=10**9)),
    )


@pytest.fixture
def recorded(tmp_path):
    def config(name, at_most):
        line = {"offered": [], "draft": "Sort.", "tools": [], "at_most": at_most}
        lines = [json.dumps({**line, "query": f"Sort {n}."}) for n in range(8)]
        (tmp_path / name).write_text("\n".join(lines))
        return GenerateConfig(engine="recorded", replies=tmp_path / name)

    return EngineCase(
        ENGINES.find("recorded", ""),
        config("one.jsonl", at_most=2),
        shaping=[config("other.jsonl", at_most=3)],
        transport=[config("copy.jsonl", at_most=2)],
    )


@pytest.fixture
def rules():
    config = GenerateConfig(engine="rules", offered=4, max_tools=4)
    context = EngineContext(TOOLS, seed=7)
    write = tuple(
        ChatRequest(attempt, "write", (), {}, WriteTask(TOOLS[attempt:][:4], 3))
        for attempt in range(4)
    )
    return EngineCase(
        ENGINES.find("rules", ""),
        config,
        context,
        requests=(*EngineCase.requests, *write),
        shaping=[EngineContext(TOOLS, seed=8), EngineContext(TOOLS[1:], seed=7)],
        transport=changed(config, {"concurrency": 2}),
    )


CHECKED = ("openai", "vllm", "recorded", "rules")
IN_ROUNDS = ("batch",)
"""They answer no single call, which is what is checked; `test_batch.py` has theirs."""


@pytest.mark.parametrize("engine", CHECKED)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_engine_does_it(check, engine, request):
    case = request.getfixturevalue(engine)
    assert case.kind.name == engine
    check(case)


def test_no_engine_of_ours_goes_unchecked():
    kinds = {name: ENGINES.load(name) for name in ENGINES.own}
    assert {name for name, kind in kinds.items() if kind.in_rounds} == {*IN_ROUNDS}
    assert {*kinds} == {*CHECKED, *IN_ROUNDS}


class Echo:
    """An engine as it should be: it says what it is asked."""

    name, model, identity, offers = "echo", "none", "echo 1", None
    made = 0

    def __init__(self, config, context):
        type(self).made += 1

    async def answer(self, request):
        if request.attempt < 0:
            raise EngineError("The line is dead.", reason="line-dead")
        await asyncio.sleep(0)
        return ChatReply(request.messages[0].content, self.model)

    async def close(self):
        pass


async def mix(self, request):
    self.request = request
    return await Echo.answer(self, request) and await Echo.answer(self, self.request)


async def fail_otherwise(self, request):
    raise OSError("The line is dead.")


async def show_the_key(self, request):
    raise EngineError(f"Refused: {KEY}", reason="refused-key")


async def ignore_cancelling(self, request):
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(1)
    return ChatReply("late", self.model)


async def close_once(self):
    self.name = self.name.removeprefix("echo") or self.missing


@pytest.mark.parametrize(
    ("check", "name", "wrong"),
    [
        ("check_identity", "identity", property(lambda self: f"echo {self.made}")),
        ("check_concurrency", "answer", mix),
        ("check_failures", "answer", fail_otherwise),
        ("check_failures", "answer", show_the_key),
        ("check_cancelling", "answer", ignore_cancelling),
        ("check_closing", "close", close_once),
    ],
)
def test_an_engine_that_does_not_is_found(check, name, wrong):
    (check,) = [item for item in CHECKS if item.__name__ == check]
    engine = type("Wrong", (Echo,), {name: wrong})
    failing = replace(polish_request(0), attempt=-1)

    def case(made):
        config = GenerateConfig(engine="echo")
        calls = {"fails": (config, failing), "hangs": (config, polish_request(0))}
        kind = EngineKind(name="echo", make=made)
        return EngineCase(kind, config, secret=KEY, **calls)

    check(replace(case(Echo), hangs=None))
    with pytest.raises((AssertionError, OSError, AttributeError)):
        check(case(engine))
