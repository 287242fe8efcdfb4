import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.engines import create_engine
from toolbank.llm.chat import ChatRequest, EngineError, Message, WriteTask
from toolbank.llm.engines.kind import release_engines
from toolbank.llm.engines.vllm import thread as vllm_thread
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError

STAND_IN = Path(__file__).parent / "vllm_stand_in"
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}


def request(attempt=0, **prompt):
    message = Message("user", json.dumps(prompt))
    return ChatRequest(attempt, "write", (message,), SCHEMA, WriteTask((), 2))


def make(seed=0, **settings):
    settings = {"engine": "vllm", "model": "small", **settings}
    return create_engine(GenerateConfig(**settings), tools=(), seed=seed)


def talk(act, **settings):
    """What `act` gives of an engine, which is closed after it."""

    async def run():
        engine = make(**settings)
        try:
            async with asyncio.timeout(30):
                return await act(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def answers(*requests, **settings):
    """Replies or errors of requests that are all made at once."""

    def ask(engine):
        calls = (engine.answer(item) for item in requests)
        return asyncio.gather(*calls, return_exceptions=True)

    return talk(ask, **settings)


async def until_writing(llms):
    while not (llms and llms[0].llm_engine.batches):
        await asyncio.sleep(0.001)


def test_the_answer_is_bound_to_the_schema_and_settings_are_passed_on(llms):
    answers(
        request(text="x"),
        temperature=0.4,
        max_tokens=77,
        parameters={"top_p": 0.8, "chat_template_kwargs": {"enable_thinking": False}},
        options={"tensor_parallel_size": 2},
    )
    (llm,) = llms
    assert llm.arguments == {"model": "small", "tensor_parallel_size": 2}
    ((messages, sampling, template),) = llm.asked
    assert messages == [{"role": "user", "content": '{"text": "x"}'}]
    assert sampling.structured_outputs.json == SCHEMA
    assert (sampling.temperature, sampling.max_tokens) == (0.4, 77)
    assert sampling.top_p == 0.8
    assert template == {"enable_thinking": False}


def test_a_request_is_taken_in_while_another_is_still_being_written(llms):
    async def act(engine):
        first = asyncio.ensure_future(engine.answer(request(0, text="a", after="b")))
        await until_writing(llms)
        return await engine.answer(request(1, text="b")), await first

    assert [reply.text for reply in talk(act)] == ["b", "a"]
    assert {"a", "b"} in llms[0].llm_engine.batches


def test_closing_does_not_leave_a_call_waiting(llms):
    async def act(engine):
        call = asyncio.ensure_future(engine.answer(request(0, text="a", after="never")))
        await until_writing(llms)
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await call

    talk(act)


@pytest.mark.parametrize(
    ("text", "reason", "finish"),
    [
        ("two words", "stop", "stop"),
        ("x", "length", "cut-off"),
        ("x", "repetition", "cut-off"),
        (" ", "stop", "empty"),
    ],
)
def test_how_an_answer_ended_is_in_the_reply(llms, text, reason, finish):
    (reply,) = answers(request(text=text, finish=reason))
    assert (reply.text, reply.model, reply.finish) == (text, "small", finish)
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, len(text.split()))
    assert reply.latency > 0


@pytest.mark.parametrize(
    ("prompt", "expected", "message"),
    [
        ({"text": "x", "finish": "abort"}, ("broken-off", True, False), "abort"),
        ({"text": "x", "finish": "error"}, ("broken-off", True, False), "error"),
        ({"refuse": "over 4096 tokens"}, ("bad-request", False, False), "over 4096"),
    ],
)
def test_a_request_that_fails_fails_alone(llms, prompt, expected, message):
    error, reply = answers(request(**prompt), request(text="fine"))
    assert (error.reason, error.retryable, error.fatal) == expected
    assert message in str(error)
    assert reply.text == "fine"


@pytest.mark.parametrize("how", ["die", "dead"])
def test_an_engine_that_ends_fails_what_ran_and_what_comes_later(llms, how):
    async def act(engine):
        together = (request(text="long", steps=9999), request(**{how: True}))
        for group in (together, (request(text="late"),)):
            calls = [engine.answer(item) for item in group]
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, EngineError)
                assert (error.fatal, error.reason) == (True, "engine-ended")
                assert "EngineCore encountered an issue" in str(error)

    talk(act)
    (reply,) = answers(request(text="y"))
    assert reply.text == "y"


def test_a_call_that_is_given_up_is_aborted_there(llms):
    async def act(engine):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await engine.answer(request(text="endless", steps=10**9))
        return await engine.answer(request(text="next"))

    assert talk(act).text == "next"
    assert llms[0].llm_engine.aborted == ["endless"]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "vllm"]


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.1}, {"max_tokens": 9, "parameters": {"top_p": 0.5}}]
)
def test_a_model_stays_for_later_engines_with_their_own_sampling(llms, settings):
    answers()
    assert not llms
    answers(request(text="x"))
    answers(request(text="y"), **settings)
    (llm,) = llms
    sampling = [call[1] for call in llm.asked]
    given = {**settings, **settings.get("parameters", {})}
    for name, value in given.items():
        if name != "parameters":
            assert getattr(sampling[1], name) == value != getattr(sampling[0], name)
    release_engines()
    assert not threads()
    answers(request(text="y"))
    assert len(llms) == 2


@pytest.mark.parametrize(
    "settings", [{"model": "large"}, {"options": {"tensor_parallel_size": 2}}]
)
def test_one_model_makes_room_for_another(llms, settings):
    answers(request(text="x"))
    answers(request(text="y"), **settings)
    assert len(llms) == 2
    assert len(threads()) == 1


def test_engines_that_are_open_at_once_each_keep_their_model(llms):
    async def act(first):
        second = make(model="large")
        await first.answer(request(text="a"))
        await second.answer(request(text="b"))
        reply = await first.answer(request(text="c"))
        await second.close()
        return reply.text

    assert talk(act) == "c"
    assert [llm.arguments["model"] for llm in llms] == ["small", "large"]


@pytest.mark.parametrize("given", [{}, {"max_model_len": 4096}])
def test_on_a_cpu_prompts_are_not_split(llms, monkeypatch, given):
    answers(request(text="x"), options=given)
    release_engines()
    from vllm.platforms import current_platform

    monkeypatch.setattr(type(current_platform), "cpu", True)
    answers(request(text="x"), options=given)
    assert [llm.enable_chunked_prefill for llm in llms] == [None, False]
    (error,) = answers(request(text="x"), options={"enable_chunked_prefill": True})
    assert isinstance(error, InputError)
    assert "generate.options.enable_chunked_prefill" in str(error)


def test_a_seed_is_the_requests_own_and_the_same_in_every_run(llms):
    first, again, other = (
        answers(request(0, text="x"), request(1, text="x"), seed=seed)
        and [asked[1].seed for asked in llms[0].asked[-2:]]
        for seed in (0, 0, 5)
    )
    assert sorted(first) == sorted(again)
    assert len({*first, *other}) == 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "missing"}, r"generate\.model: vLLM can't load 'missing'.*OSError"),
        ({"parameters": {"top_p": 7}}, r"generate\.parameters: .*top_p must be"),
        ({"parameters": {"tap_p": 1}}, r"generate\.parameters: .*tap_p"),
    ],
)
def test_what_vllm_refuses_to_load_is_bad_input_for_every_request(llms, settings, said):
    found = answers(request(0, text="x"), request(1, text="y"), **settings)
    assert all(isinstance(error, InputError) for error in found)
    assert all(re.search(said, str(error)) for error in found)
    (reply,) = answers(request(text="x"))
    assert reply.text == "x"


@pytest.mark.parametrize(
    "options",
    [{"trust_remote_code": True}, {"distributed_executor_backend": "recipe.Executor"}],
)
def test_a_recipe_can_not_make_vllm_run_its_own_code(llms, monkeypatch, options):
    monkeypatch.delenv("TOOLBANK_TRUST_REMOTE_CODE", raising=False)
    (name,) = options
    refusal = rf"options\.{name}: .*TOOLBANK_TRUST_REMOTE_CODE=1"
    with pytest.raises(InputError, match=refusal):
        make(options=options)
    assert not llms
    # Then it is vLLM that refuses, or not; the stand-in knows none of these.
    monkeypatch.setenv("TOOLBANK_TRUST_REMOTE_CODE", "1")
    (error,) = answers(request(text="x"), options=options)
    assert isinstance(error, InputError)
    assert re.search(rf"vLLM can't load .*{name}", str(error))


def test_a_package_that_can_not_be_imported_is_bad_input(tmp_path, monkeypatch):
    (tmp_path / "vllm.py").write_text("import libcuda_missing")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    (error,) = answers(request(text="x"))
    assert isinstance(error, InputError)
    assert re.search("can't be imported .*libcuda_missing", str(error))


# Stands in for a vLLM whose model runs in a process of its own.
WITH_PROCESS = """
    import multiprocessing, os, signal, subprocess, sys, time
    from pathlib import Path


    def child(path, ready):
        # As vLLM's own processes do.
        signal.signal(signal.SIGINT, lambda *_: path.write_text("interrupted"))
        ready.set()
        time.sleep(1 if path.name == "marker" else 600)


    class LLM:
        def __init__(self, model, **options):
            spawn = multiprocessing.get_context("spawn")
            ready = spawn.Event()
            self.process = spawn.Process(target=child, args=(Path(model), ready))
            self.process.start()
            ready.wait()
            if Path(model).name == "marker":
                os.kill(self.process.pid, signal.SIGINT)
                self.process.join()
                return
            # Named as vLLM names its processes, and one of somebody else's.
            sleep = ["sleep", "600"]
            titled = subprocess.Popen(["VLLM::Worker", "600"], executable="/bin/sleep")
            other = subprocess.Popen(["sleep", "600"])
            print(self.process.pid, titled.pid, other.pid, flush=True)


    class SamplingParams:
        def __init__(self, **settings):
            pass
"""
SCRIPT = """
import sys
from tests.llm.test_vllm import answers, request

if __name__ == "__main__":
    print(answers(request(text="x"), model=sys.argv[1]), file=sys.stderr)
"""


def command_with_process(tmp_path, model):
    """A command that loads a model of `WITH_PROCESS`, and the environment that it needs."""
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(WITH_PROCESS))
    (package / "exceptions.py").write_text("class VLLMClientError(Exception): pass")
    shutil.copy(STAND_IN / "vllm/platforms.py", package)
    (package / "sampling_params.py").write_text(
        "class StructuredOutputsParams:\n    def __init__(self, json):\n        pass\n"
    )
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / model)]
    return command, {**os.environ, "PYTHONPATH": path}


def test_an_interrupt_of_the_terminal_does_not_reach_the_processes_of_vllm(tmp_path):
    command, environment = command_with_process(tmp_path, "marker")
    captured = {"timeout": 60, "capture_output": True, "text": True}
    done = subprocess.run(command, env=environment, **captured)
    assert "has no attribute 'enqueue_chat'" in done.stderr
    assert not (tmp_path / "marker").exists()


def test_a_kill_ends_the_processes_of_vllm_and_no_others(tmp_path):
    command, environment = command_with_process(tmp_path, "lasting")
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as run:
        *own, other = map(psutil.Process, map(int, run.stdout.readline().split()))
        try:
            time.sleep(3 * vllm_thread._WATCH_S)
            run.kill()
            run.wait()
            _, alive = psutil.wait_procs(own, timeout=10)
            assert not alive
            assert other.is_running()
        finally:
            for process in (*own, other):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
