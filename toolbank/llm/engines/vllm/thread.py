"""Threads that run vLLM's models: each loads one, and never lets its batch run dry."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from multiprocessing import resource_tracker
from time import perf_counter
from typing import TYPE_CHECKING, Any

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.placement import keep_for_later_stages
from toolbank.system.errors import InputError, ToolbankError

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

    from toolbank.llm.config import EngineConfig

_FINISH = {"stop": "stop", "length": "cut-off", "repetition": "cut-off"}
_LONGEST_CLOSE_S = 60
_WATCH_S = 0.5
"""How often the processes of this one are looked up, to be ended with it."""


class Call:
    """A request on its way through the model, and the future that its reply settles.

    `config` has the settings of its sampling.
    """

    def __init__(self, request: ChatRequest, config: EngineConfig, seed: int) -> None:
        self.request = request
        self.config = config
        self.seed = seed
        self.id = ""
        self.begun = perf_counter()
        self.is_cancelled = False
        self._loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[ChatReply] = self._loop.create_future()

    def settle(self, outcome: ChatReply | ToolbankError) -> None:
        """Give the outcome to who waits, from any thread."""
        # A loop that was stopped in mid-run is closed: nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: ChatReply | ToolbankError) -> None:
        if self.reply.done():
            return
        if isinstance(outcome, ToolbankError):
            self.reply.set_exception(outcome)
        else:
            self.reply.set_result(outcome)


class ModelThread:
    """Loads a model in a thread of its own, which alone uses it.

    The models `after` which it is loaded are closed first, for their memory. A model that can't
    be loaded is the answer to every call.

    `LLM.chat` returns when the last of its requests is done, and the batch runs dry before that.
    So requests are taken in as `LLM.chat` does it (`LLM.enqueue_chat`), and the engine is stepped
    here (`LLM.llm_engine.step`, as there): what came meanwhile is taken in between two steps.
    """

    def __init__(self, config: EngineConfig, after: Sequence[ModelThread] = ()) -> None:
        self.users = 0
        self.has_ended = False
        self._config = config
        self._after = after
        self._inbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._running: dict[str, Call] = {}
        self._thread = threading.Thread(target=self._run, name="vllm", daemon=True)
        self._thread.start()

    def serves(self, config: EngineConfig) -> bool:
        """Whether it runs, with the model and options of a configuration."""
        own = self._config
        return not self.has_ended and (own.model, own.options) == (
            config.model,
            config.options,
        )

    def put(self, call: Call) -> None:
        """Take a new call, or one that was cancelled since."""
        self._inbox.put(call)

    def close(self) -> None:
        """End the thread and free the model's memory."""
        self.has_ended = True
        self._inbox.put(None)
        self._thread.join(_LONGEST_CLOSE_S)

    def _run(self) -> None:
        for model in self._after:
            model.close()
        try:
            llm = _load(self._config)
        except InputError as error:
            self._fail_all(error)
            return
        except Exception as error:
            self._fail_all(_describe_end(error))
            return
        try:
            while self._take(llm):
                self._step(llm)
            death = None
            self._fail_running(make_closed_error())
        except Exception as error:
            death = _describe_end(error)
        del llm
        gc.collect()
        if death is not None:
            self._fail_all(death)

    def _take(self, llm: LLM) -> bool:
        """Take in all that came; wait for the first where nothing runs. False at the end."""
        while True:
            try:
                call = self._inbox.get(block=not self._running)
            except queue.Empty:
                return True
            if call is None:
                return False
            if not call.is_cancelled:
                self._add(llm, call)
            elif self._running.pop(_number(call.id), None):
                llm.llm_engine.abort_request([call.id], internal=True)

    def _add(self, llm: LLM, call: Call) -> None:
        from vllm.exceptions import VLLMClientError

        try:
            (call.id,) = llm.enqueue_chat(
                [asdict(message) for message in call.request.messages],
                make_sampling(call.config, call.request.schema, call.seed),
                use_tqdm=False,
                chat_template_kwargs=call.config.parameters.get("chat_template_kwargs"),
            )
        except (VLLMClientError, ValueError, TypeError) as error:
            # A prompt that is too long, say.
            message = f"vllm: the request was refused ({error})."
            call.settle(EngineError(message, reason="bad-request"))
        except Exception:
            # The engine has ended; this call fails with those that come yet.
            self.put(call)
            raise
        else:
            call.begun = perf_counter()
            self._running[_number(call.id)] = call

    def _step(self, llm: LLM) -> None:
        for output in llm.llm_engine.step() if self._running else ():
            number = _number(output.request_id)
            if output.finished and number in self._running:
                call = self._running.pop(number)
                call.settle(_read(output, self._config.model, call.begun))

    def _fail_all(self, death: ToolbankError) -> None:
        """Settle what ran when the engine ended, and all that comes, until the end."""
        self.has_ended = True
        self._fail_running(death)
        while (late := self._inbox.get()) is not None:
            late.settle(death)

    def _fail_running(self, failure: ToolbankError) -> None:
        for call in self._running.values():
            call.settle(failure)


_loaded: list[ModelThread] = []
_lock = threading.Lock()


def borrow_model(config: EngineConfig) -> ModelThread:
    """Return the model of these settings, loaded now unless an earlier stage has left it.

    Models that nobody uses any more are closed before another one is loaded.
    """
    with _lock:
        model = next((one for one in _loaded if one.serves(config)), None)
        if model is None:
            idle = [one for one in _loaded if not one.users]
            model = ModelThread(config, after=idle)
            _loaded[:] = [*(one for one in _loaded if one.users), model]
        model.users += 1
        return model


def return_model(model: ModelThread) -> None:
    """Leave a model loaded for the next stage of the same settings."""
    with _lock:
        model.users -= 1


def close_idle_models() -> None:
    """Close the models that nobody uses, and free their memory."""
    with _lock:
        idle = [one for one in _loaded if not one.users]
        _loaded[:] = [one for one in _loaded if one.users]
    for model in idle:
        model.close()


@cache
def _register_closing() -> None:
    """Have models closed by `release_engines`, and before multiprocessing ends their processes."""
    keep_for_later_stages(close_idle_models)
    # Handlers run from the newest to the oldest, and that of multiprocessing is older.
    atexit.register(_close_all)


def _close_all() -> None:
    for model in _loaded:
        model.close()


def _describe_end(error: Exception) -> EngineError:
    return EngineError(
        f"vllm: the engine has ended ({type(error).__name__}: {error}). Its log above may say "
        "why. The replies that came are kept; run the same command again.",
        reason="engine-ended",
        fatal=True,
    )


def make_closed_error() -> EngineError:
    """Make the error of a call that was in flight when its engine was closed."""
    return EngineError(
        "vllm: the engine was closed before it had answered.", reason="engine-closed"
    )


def make_sampling(
    config: EngineConfig, schema: Mapping[str, Any], seed: int
) -> SamplingParams:
    """The sampling parameters of one request.

    Raises:
        Exception: vLLM refuses one of them.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    settings: dict[str, Any] = {"seed": seed, **config.parameters}
    settings.pop("chat_template_kwargs", None)
    if config.temperature is not None:
        settings["temperature"] = config.temperature
    return SamplingParams(
        max_tokens=config.max_tokens,
        structured_outputs=StructuredOutputsParams(json=dict(schema)),
        **settings,
    )


def _load(config: EngineConfig) -> LLM:
    # Ctrl-C is for this process alone: it lets what is in flight finish, and vLLM's own processes
    # would end at once. They inherit what this thread blocks; the tracker that Python starts
    # before the first of them would unblock it.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A fork of a process with threads may hang, and the standard output is for results.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    try:
        from vllm import LLM
    except ImportError as error:
        raise InputError(
            f"{config.section}.engine: vllm is installed and can't be imported ({error})."
        ) from error
    try:
        make_sampling(config, {"type": "object"}, 0)
    except Exception as error:
        raise InputError(
            f"{config.section}.parameters: vLLM refuses them ({error})."
        ) from error
    options = _fit_to_platform(config)
    _watch_processes()
    try:
        llm = LLM(model=config.model, **options)
    except Exception as error:
        raise InputError(
            f"{config.section}.model: vLLM can't load {config.model!r} with these options "
            f"({type(error).__name__}: {error}). Its log above may say more."
        ) from error
    _register_closing()
    return llm


def _fit_to_platform(config: EngineConfig) -> Mapping[str, Any]:
    """Return a configuration's options, on a CPU such that vLLM never splits a prompt.

    Every request has a seed, and a generator of a CPU has no offset, to which vLLM sets it back
    after each part of a prompt but the last: the first prompt that is split would end vLLM.

    Raises:
        InputError: the options ask for prompts to be split.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return config.options
    if config.options.get("enable_chunked_prefill"):
        raise InputError(
            f"{config.section}.options.enable_chunked_prefill: on a CPU vLLM can't split the "
            "prompts of requests that have a seed, and these have one. Remove the option."
        )
    return {**config.options, "enable_chunked_prefill": False}


@cache
def _watch_processes() -> subprocess.Popen[bytes]:
    """Start a process that ends those of vLLM when this one has ended, even by SIGKILL.

    vLLM's own don't notice that, and would keep the model's memory.
    """
    code = f"from {__name__} import end_orphans; end_orphans({os.getpid()})"
    return subprocess.Popen(  # noqa: S603 - the code is ours
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def end_orphans(parent: int) -> None:
    """Wait until standard input is closed, then kill the parent's processes that run models.

    These are vLLM's, and those that Python's multiprocessing started to become one.
    """
    import psutil

    found: set[psutil.Process] = set()
    while not select.select([sys.stdin], [], [], _WATCH_S)[0]:
        with suppress(psutil.Error):
            found |= set(psutil.Process(parent).children(recursive=True))
    for process in found:
        with suppress(psutil.Error):
            for one in (*process.children(recursive=True), process):
                if is_of_model(" ".join(one.cmdline())):
                    one.kill()


def is_of_model(command: str) -> bool:
    """Whether a command line is that of a process of vLLM, or is about to become one."""
    return command.startswith("VLLM::") or "multiprocessing.spawn" in command


def _number(request_id: str) -> str:
    """A request's number: `enqueue_chat` gives it with a random part after it, `step` without."""
    return request_id.partition("-")[0]


def _read(output: RequestOutput, model: str, begun: float) -> ChatReply | EngineError:
    answer = output.outputs[0]
    finish = _FINISH.get(str(answer.finish_reason))
    if finish is None:
        return EngineError(
            f"vllm: the request was broken off ({answer.finish_reason}).",
            reason="broken-off",
            retryable=True,
        )
    if finish == "stop" and not answer.text.strip():
        finish = "empty"
    return ChatReply(
        text=answer.text,
        model=model,
        prompt_tokens=len(output.prompt_token_ids or ()),
        completion_tokens=len(answer.token_ids),
        finish=finish,
        latency=perf_counter() - begun,
    )
