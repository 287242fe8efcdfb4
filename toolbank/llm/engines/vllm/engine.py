"""vLLM in this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbank.llm import placement as executor
from toolbank.llm.chat import ChatReply, ChatRequest
from toolbank.llm.engines.kind import EngineKind
from toolbank.llm.engines.vllm.thread import (
    Call,
    ModelThread,
    borrow_model,
    make_closed_error,
    return_model,
)
from toolbank.system.errors import InputError
from toolbank.system.extras import demand_library

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

# Set elsewhere, or not to be set.
_TAKEN_PARAMETERS = {
    "temperature": "it is a setting of its own",
    "max_tokens": "it is a setting of its own",
    "n": "one answer is read of each reply",
    "structured_outputs": "it is made from the schema of the answer",
    "output_kind": "replies are read whole",
}
_TAKEN_OPTIONS = {
    "model": "it is a setting of its own",
    "download_dir": "a recipe doesn't choose where files are written; set the environment "
    "variable HF_HOME",
    "hf_token": "a key stands in no recipe; set the environment variable HF_TOKEN",
}
# The user's own word that a recipe may let vLLM run code of the recipe's choosing.
_TRUST = "TOOLBANK_TRUST_REMOTE_CODE"
# vLLM's own executors; any other name is that of a class, which would be imported.
_EXECUTORS = ("mp", "ray", "uni", "external_launcher")
# How the model is laid out on the machine; none of it shapes what is written.
_LAYOUT = frozenset(
    {
        "cpu_offload_gb",
        "data_parallel_size",
        "disable_custom_all_reduce",
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "tensor_parallel_size",
    }
)
_GPUS = ("data_parallel_size", "pipeline_parallel_size", "tensor_parallel_size")
# None of these, and of the layout, names code that is run, or a file that is read as code.
_HARMLESS = _LAYOUT | {
    "block_size",
    "chat_template",
    "dtype",
    "enable_chunked_prefill",
    "enable_expert_parallel",
    "generation_config",
    "kv_cache_dtype",
    "max_model_len",
    "override_generation_config",
    "quantization",
    "revision",
    "seed",
    "tokenizer",
    "tokenizer_revision",
}


class VLLMEngine:
    """Writes with a model that vLLM runs on this machine.

    The model is loaded for the first request, and stays loaded for engines of the same model and
    options that are made later. `options` are arguments of `vllm.LLM`, and only such as can't make it run code of a recipe's
    choosing; the user may allow the others by TOOLBANK_TRUST_REMOTE_CODE=1. `parameters` are
    those of `vllm.SamplingParams` (and `chat_template_kwargs` of `LLM.chat`). Each request has a
    seed of its own, a hash of the request and the run's seed: what is written does not hang on
    what else is in the batch, as far as the model's arithmetic doesn't (VLLM_BATCH_INVARIANT=1
    makes that so on some GPUs, and slower).

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
        """Write the answer.

        Raises:
            InputError: vLLM can't be imported, refuses a setting, or can't load the model.
            EngineError: the request can't be put to the model, or vLLM broke off; `fatal` where
                it has ended.
        """
        if self._model is None:
            self._model = borrow_model(self._config)
        # A hash of the request, of which this takes as many bits as any generator knows.
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
    """Refuse what no model can be loaded or asked with; vLLM itself need not be there.

    Raises:
        InputError: no model is named, a parameter or option is set elsewhere, or an option has
            code run that was not asked for.
    """
    if not config.model:
        raise InputError(
            f"{config.section}.model: not set. Name a model of the Hugging Face hub, or its "
            "folder."
        )
    _refuse(f"{config.section}.parameters", config.parameters, _TAKEN_PARAMETERS)
    _refuse(f"{config.section}.options", config.options, _TAKEN_OPTIONS)
    if os.environ.get(_TRUST) != "1":
        _refuse_code(config)


def check_installed(config: EngineConfig) -> None:
    """Refuse to go on without vLLM.

    Raises:
        InputError: it is not installed.
    """
    demand_library("vllm", f"{config.section}.engine")


def make_identity(config: EngineConfig, seed: int) -> str:
    """The name of a model and the settings that shape its replies, as `Engine.identity` has it."""
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


def _refuse(key: str, given: Mapping[str, Any], taken: Mapping[str, str]) -> None:
    for name in given:
        if name in taken:
            raise InputError(f"{key}.{name}: can't be set here; {taken[name]}.")


def _refuse_code(config: EngineConfig) -> None:
    """A recipe is data, and may be somebody else's."""
    executor = config.options.get("distributed_executor_backend") or "mp"
    for name in config.options:
        is_class = name == "distributed_executor_backend" and executor not in _EXECUTORS
        if name not in _HARMLESS or is_class:
            raise InputError(
                f"{config.section}.options.{name}: a recipe may not set this, as vLLM could be "
                "made to run code of the recipe's choosing. If you trust this recipe and the "
                f"model that it names, run it with the environment variable {_TRUST}=1. Without "
                f"it there are: {', '.join(sorted(_HARMLESS))}."
            )


def _check_access(config: EngineConfig) -> None:
    """Refuse to go on without what this machine needs: with workers, they need vLLM."""
    if config.executor == "local":
        check_installed(config)
    executor.check_installed(config)


def _count_gpus(config: EngineConfig) -> int:
    """How many a model is laid out on."""
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
