"""The thread that has vLLM's model, and never lets its batch run dry."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from multiprocessing import resource_tracker
from time import perf_counter
from typing import TYPE_CHECKING, Any

from toolbank.chat.chat import ChatReply, ChatRequest, EngineError
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

    from toolbank.llm.config import EngineConfig

_FINISH = {"stop": "stop", "length": "cut-off", "repetition": "cut-off"}
_LONGEST_CLOSE_S = 60


class Call:
    """A request on its way through the model, and the future of who waits for its reply."""

    def __init__(self, request: ChatRequest, seed: int) -> None:
        self.request = request
        self.seed = seed
        self.id = ""
        self.begun = perf_counter()
        self.is_cancelled = False
        self._loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[ChatReply] = self._loop.create_future()

    def settle(self, outcome: ChatReply | EngineError) -> None:
        """Give the outcome to who waits, from any thread."""
        # A loop that was stopped in mid-run is closed: nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: ChatReply | EngineError) -> None:
        if self.reply.done():
            return
        if isinstance(outcome, EngineError):
            self.reply.set_exception(outcome)
        else:
            self.reply.set_result(outcome)


class ModelThread:
    """Loads the model when it is made, and has it alone.

    `LLM.chat` returns when the last of its requests is done, and the batch runs dry before that.
    So requests are taken in as `LLM.chat` does it (`LLM.enqueue_chat`), and the engine is stepped
    here (`LLM.llm_engine.step`, as there): what came meanwhile is taken in between two steps.

    Raises:
        InputError: vLLM can't be imported, refuses the parameters, or can't load the model.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._inbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._running: dict[str, Call] = {}
        loaded: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(loaded,), name="vllm", daemon=True
        )
        self._thread.start()
        loaded.result()

    def put(self, call: Call) -> None:
        """Take a new call, or one that was cancelled since."""
        self._inbox.put(call)

    def close(self) -> None:
        """End the thread and let go of the model."""
        self._inbox.put(None)
        self._thread.join(_LONGEST_CLOSE_S)

    def _run(self, loaded: Future[None]) -> None:
        try:
            llm = _load(self._config)
        except BaseException as error:
            loaded.set_exception(error)
            return
        loaded.set_result(None)
        try:
            while self._take(llm):
                self._step(llm)
            death = None
            self._fail_running(
                EngineError(
                    "vllm: the engine was closed before it had answered.",
                    reason="engine-closed",
                )
            )
        except Exception as error:
            death = EngineError(
                f"vllm: the engine has ended ({type(error).__name__}: {error}). Its log above may "
                "say why. The replies that came are kept; run the same command again.",
                reason="engine-ended",
                fatal=True,
            )
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
                make_sampling(self._config, call.request.schema, call.seed),
                use_tqdm=False,
                chat_template_kwargs=self._config.parameters.get(
                    "chat_template_kwargs"
                ),
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
            self._running[_number(call.id)] = call

    def _step(self, llm: LLM) -> None:
        for output in llm.llm_engine.step() if self._running else ():
            number = _number(output.request_id)
            if output.finished and number in self._running:
                call = self._running.pop(number)
                call.settle(_read(output, self._config.model, call.begun))

    def _fail_all(self, death: EngineError) -> None:
        """Settle what ran when the engine ended, and all that comes, until the end."""
        self._fail_running(death)
        while (late := self._inbox.get()) is not None:
            late.settle(death)

    def _fail_running(self, failure: EngineError) -> None:
        for call in self._running.values():
            call.settle(failure)


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
    try:
        return LLM(model=config.model, **config.options)
    except Exception as error:
        raise InputError(
            f"{config.section}.model: vLLM can't load {config.model!r} with these options "
            f"({type(error).__name__}: {error}). Its log above may say more."
        ) from error


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
