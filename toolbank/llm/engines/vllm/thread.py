"""Threads that run vLLM: each loads one model, and keeps its batch filled."""

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
from toolbank.llm.engines.kind import keep_for_later_stages
from toolbank.system.errors import InputError, ToolbankError

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

    from toolbank.llm.config import EngineConfig

_FINISH = {"stop": "stop", "length": "cut-off", "repetition": "cut-off"}
_LONGEST_CLOSE_S = 60
_WATCH_S = 0.5
"""How often the watching process looks for child processes, in seconds."""


class Call:
    """A request to the model, with the sampling settings of `config` and the future reply."""

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
        """Set the outcome of the future, from any thread."""
        # The loop of an aborted run is closed, and nobody waits in it.
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
    """Loads a model in its own thread, which alone uses it.

    The models in `after` are closed first to free their memory. If the model can't be loaded,
    every call gets that error.

    `LLM.chat` returns only when the last of its requests is done, so its batch runs dry before.
    Instead, this enqueues requests as `LLM.chat` does (`LLM.enqueue_chat`) and steps the engine
    (`LLM.llm_engine.step`); new requests are added between two steps.
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
        """Whether it runs with the model and options of a configuration."""
        own = self._config
        return not self.has_ended and (own.model, own.options) == (
            config.model,
            config.options,
        )

    def put(self, call: Call) -> None:
        """Add a new call, or announce one that was cancelled."""
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
        """Take all new calls, and wait for one if nothing runs; False at the end."""
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
                make_sampling(call.config, call.request.sent_schema, call.seed),
                use_tqdm=False,
                chat_template_kwargs=call.config.parameters.get("chat_template_kwargs"),
            )
        except (VLLMClientError, ValueError, TypeError) as error:
            # For example, the prompt is too long.
            message = f"vllm: the request was refused ({error})."
            call.settle(EngineError(message, reason="bad-request"))
        except Exception:
            # The engine has ended; this call fails with the later ones.
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
        """Fail the running calls and all later ones, until the thread is closed."""
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

    Unused models are closed before another one is loaded.
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
    """Keep a model loaded for the next stage with the same settings."""
    with _lock:
        model.users -= 1


def close_idle_models() -> None:
    """Close unused models, and free their memory."""
    with _lock:
        idle = [one for one in _loaded if not one.users]
        _loaded[:] = [one for one in _loaded if one.users]
    for model in idle:
        model.close()


@cache
def _register_closing() -> None:
    """Close models by `release_engines`, and before multiprocessing ends their processes."""
    keep_for_later_stages(close_idle_models)
    # The newest handler runs first, and that of multiprocessing is older.
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
    # Ctrl-C must not reach vLLM's processes, which would end at once: calls in flight finish. They
    # inherit the signals that this thread blocks, unless Python's resource tracker, which starts
    # before the first of them, unblocks them.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A forked process with threads may hang, and the standard output is for results.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    try:
        from vllm import LLM
    except ImportError as error:
        raise InputError(
            f"{config.section}.engine: vllm is installed but can't be imported ({error})."
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
    """Return a configuration's options, without prompt splitting on a CPU.

    Every request has a seed. After each part of a split prompt, vLLM resets the offset of the
    random generator, which generators of a CPU do not have, so the first split would end vLLM.

    Raises:
        InputError: the options enable prompt splitting.
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
    """Start a process that ends vLLM's processes when this one has ended, even by SIGKILL.

    vLLM's processes do not notice it, and would keep the model's memory.
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
                command = " ".join(one.cmdline())
                if command.startswith("VLLM::") or "multiprocessing.spawn" in command:
                    one.kill()


def _number(request_id: str) -> str:
    """A request's number: `enqueue_chat` gives it with a random part after it, `step` without."""
    return request_id.partition("-")[0]


def _read(output: RequestOutput, model: str, begun: float) -> ChatReply | EngineError:
    answer = output.outputs[0]
    finish = _FINISH.get(str(answer.finish_reason))
    if finish is None:
        return EngineError(
            f"vllm: the request was aborted ({answer.finish_reason}).",
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
