"""vLLM in this process."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

from toolbank.llm.chat import ChatReply, ChatRequest
from toolbank.llm.engines.kind import EngineKind, refuse_taken, require_executor
from toolbank.llm.engines.vllm.thread import (
    Call,
    ModelThread,
    borrow_model,
    make_closed_error,
    return_model,
)
from toolbank.system.errors import InputError
from toolbank.system.extras import require_library

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

# Parameters and options that can't be set.
_TAKEN_PARAMETERS = {
    "temperature": "use the setting `temperature`",
    "max_tokens": "use the setting `max_tokens`",
    "n": "each reply has one answer",
    "structured_outputs": "it is made from the schema of the answer",
    "output_kind": "replies are read whole",
}
_TAKEN_OPTIONS = {
    "model": "use the setting `model`",
    "download_dir": "set the environment variable HF_HOME",
    "hf_token": "set the environment variable HF_TOKEN",
}
# The environment variable by which the user allows a recipe to make vLLM run code.
_TRUST = "TOOLBANK_TRUST_REMOTE_CODE"
# vLLM's own executors. Any other name is a class that would be imported.
_EXECUTORS = ("mp", "ray", "uni", "external_launcher")
# The layout of the model on the machine, which does not change the replies.
_LAYOUT_OPTIONS = """
    cpu_offload_gb data_parallel_size disable_custom_all_reduce disable_log_stats
    distributed_executor_backend download_dir enable_prefix_caching enforce_eager
    gpu_memory_utilization kv_cache_memory_bytes max_num_batched_tokens max_num_seqs
    pipeline_parallel_size tensor_parallel_size
"""
_LAYOUT = frozenset(_LAYOUT_OPTIONS.split())
_GPUS = ("data_parallel_size", "pipeline_parallel_size", "tensor_parallel_size")
# Options that name no code to run, and no file that is read as code.
_HARMLESS_OPTIONS = """
    block_size chat_template dtype enable_chunked_prefill enable_expert_parallel
    generation_config kv_cache_dtype max_model_len override_generation_config
    quantization revision seed tokenizer tokenizer_revision
"""
_HARMLESS = _LAYOUT.union(_HARMLESS_OPTIONS.split())


class VLLMEngine:
    """Answers requests with a model that vLLM runs on this machine.

    The model is loaded for the first request, and stays loaded for later engines with the same
    model and options. `options` are arguments of `vllm.LLM` that can't make it run code; the user
    may allow others with TOOLBANK_TRUST_REMOTE_CODE=1. `parameters` are those of
    `vllm.SamplingParams`, and `chat_template_kwargs` of `LLM.chat`. Each request has its own seed,
    a hash of the request and the run's seed, so a reply does not depend on the rest of the batch
    as far as the model's arithmetic does not (VLLM_BATCH_INVARIANT=1 ensures that on some GPUs,
    but is slower).

    Raises:
        InputError: vLLM is not installed.
    """

    name = "vllm"
    offers = None

    def __init__(self, config: EngineConfig, seed: int) -> None:
        check_installed(config)
        self.model = config.model
        self.identity = make_identity(config, seed)
        self._config = config
        self._model: ModelThread | None = None
        self._calls: set[Call] = set()

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            InputError: vLLM can't be imported, refuses a setting, or can't load the model.
            EngineError: vLLM refuses the request or aborted it; `fatal` if vLLM has ended.
        """
        if self._model is None:
            self._model = borrow_model(self._config)
        # A hash of the request, with no more bits than a generator can take.
        seed = int(request.key(self.identity)[:15], 16)
        call = Call(request, self._config, seed)
        self._calls.add(call)
        self._model.put(call)
        try:
            return await call.reply
        except asyncio.CancelledError:
            call.is_cancelled = True
            self._model.put(call)
            raise
        finally:
            self._calls.discard(call)

    async def close(self) -> None:
        """End the calls in flight; the model stays loaded until `release_engines` is called."""
        model, self._model = self._model, None
        if model is None:
            return
        for call in self._calls:
            call.is_cancelled = True
            model.put(call)
            call.settle(make_closed_error())
        return_model(model)


def check_settings(config: EngineConfig) -> None:
    """Refuse settings that vLLM can't use or that are unsafe; vLLM need not be installed.

    Raises:
        InputError: no model is named, a parameter or option can't be set, or an option could run
            code.
    """
    if not config.model:
        raise InputError(
            f"{config.section}.model: not set. Name a model of the Hugging Face hub, or its "
            "folder."
        )
    refuse_taken(f"{config.section}.parameters", config.parameters, _TAKEN_PARAMETERS)
    refuse_taken(f"{config.section}.options", config.options, _TAKEN_OPTIONS)
    if os.environ.get(_TRUST) != "1":
        _refuse_code(config)


def check_installed(config: EngineConfig) -> None:
    """Refuse to continue without vLLM.

    Raises:
        InputError: it is not installed.
    """
    require_library("vllm", f"{config.section}.engine")


def make_identity(config: EngineConfig, seed: int) -> str:
    """Make `Engine.identity` from the model and the settings that shape its replies."""
    settings = {
        "engine": VLLMEngine.name,
        "model": config.model,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "parameters": config.parameters,
        "options": {k: v for k, v in config.options.items() if k not in _LAYOUT},
        "seed": seed,
    }
    return json.dumps(settings, sort_keys=True)


def _refuse_code(config: EngineConfig) -> None:
    """Refuse options that could run code, since a recipe may come from somebody else."""
    executor = config.options.get("distributed_executor_backend") or "mp"
    for name in config.options:
        is_class = name == "distributed_executor_backend" and executor not in _EXECUTORS
        if name not in _HARMLESS or is_class:
            raise InputError(
                f"{config.section}.options.{name}: not allowed, because it could make vLLM run "
                "code. If you trust this recipe and its model, set the environment variable "
                f"{_TRUST}=1. Allowed without it: {', '.join(sorted(_HARMLESS))}."
            )


def _check_access(config: EngineConfig) -> None:
    """Refuse to continue without vLLM here, or without Ray if workers run vLLM."""
    if config.executor == "local":
        check_installed(config)
    require_executor(config)


def _count_gpus(config: EngineConfig) -> int:
    gpus = 1
    for name in _GPUS:
        size = config.options.get(name, 1)
        gpus *= size if isinstance(size, int) else 1
    return gpus


KIND = EngineKind["EngineConfig"](
    name="vllm",
    make=lambda config, context: VLLMEngine(config, context.seed),
    check=check_settings,
    check_access=_check_access,
    gpus=_count_gpus,
    sends=lambda _: (),
    identity=make_identity,
    timeout=None,
)
