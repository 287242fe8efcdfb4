"""Stands in for vLLM where it can't run: the same calls, and a model that does as a prompt says.

The last message of a chat is a JSON object: `text` is answered after `steps` steps of the engine
(default 1), or once the request with `after` as its text is done. `finish` is the finish reason.
`refuse` is an error of `enqueue_chat`, `die` one of the engine, `dead` that of an engine that had
ended before.
"""

import itertools
import json
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

from vllm.exceptions import EngineDeadError, VLLMValidationError
from vllm.sampling_params import SamplingParams

__all__ = ["LLM", "SamplingParams"]


@dataclass
class _Request:
    number: str
    id: str
    prompt: dict
    sampling_params: SamplingParams
    steps: int = 0


@dataclass
class _Engine:
    running: dict = field(default_factory=dict)
    done: set = field(default_factory=set)
    batches: list = field(default_factory=list)
    aborted: list = field(default_factory=list)

    def step(self):
        time.sleep(0.001)
        self.batches.append({r.prompt.get("text") for r in self.running.values()})
        if any("die" in request.prompt for request in self.running.values()):
            raise RuntimeError("EngineCore encountered an issue.")
        return [
            self._finish(request)
            for request in list(self.running.values())
            if self._is_done(request)
        ]

    def abort_request(self, request_ids, internal=False):
        assert internal
        for request_id in request_ids:
            request = self.running.pop(request_id)
            self.aborted.append(request.prompt.get("text"))

    def _is_done(self, request):
        request.steps += 1
        if "after" in request.prompt:
            return request.prompt["after"] in self.done
        return request.steps >= request.prompt.get("steps", 1)

    def _finish(self, request):
        del self.running[request.id]
        text = request.prompt.get("text", "")
        self.done.add(text)
        answer = SimpleNamespace(
            text=text,
            token_ids=text.split(),
            finish_reason=request.prompt.get("finish", "stop"),
        )
        return SimpleNamespace(
            request_id=request.number,
            prompt_token_ids=[0] * 7,
            outputs=[answer],
            finished=True,
        )


class LLM:
    made: ClassVar = []

    def __init__(
        self,
        model,
        *,
        tensor_parallel_size=1,
        max_model_len=None,
        enable_chunked_prefill=None,
    ):
        if model == "missing":
            raise OSError("missing is not a local folder")
        self.arguments = {"model": model, "tensor_parallel_size": tensor_parallel_size}
        self.enable_chunked_prefill = enable_chunked_prefill
        self.llm_engine = _Engine()
        self.asked = []
        self._counter = itertools.count()
        LLM.made.append(self)

    def enqueue_chat(
        self,
        messages,
        sampling_params=None,
        use_tqdm=True,
        *,
        chat_template_kwargs=None,
    ):
        prompt = json.loads(messages[-1]["content"])
        if "refuse" in prompt:
            raise VLLMValidationError(prompt["refuse"])
        if "dead" in prompt:
            raise EngineDeadError("EngineCore encountered an issue.")
        number = str(next(self._counter))
        request = _Request(number, f"{number}-1a2b3c4d", prompt, sampling_params)
        self.asked.append((messages, sampling_params, chat_template_kwargs))
        self.llm_engine.running[request.id] = request
        return [request.id]
