"""Settings of a training, and their translation into arguments of transformers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_validator

from toolbank.config.base import Config, Transport
from toolbank.system.errors import InputError
from toolbank.system.numbers import unsigned
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    import torch


class TrainingConfig(Config):
    """How weights are trained; each method has its own defaults.

    A batch is for one device; a step has `accumulation` batches.
    """

    epochs: float = Field(default=3, gt=0, description="passes over the train queries")
    batch_size: int = Field(default=32, ge=1, description="per device")
    accumulation: int = Field(default=1, ge=1, description="batches per step")
    learning_rate: float = Field(default=5e-5, gt=0, description="peak")
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW")
    warmup: float = Field(
        default=0.1,
        ge=0,
        description="warm-up: a value below 1 is a share of the steps, any other a number of steps",
    )
    schedule: Literal["linear", "cosine", "constant"] = Field(
        default="linear", description="learning rate after the warm-up"
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        default="auto",
        description="auto: bf16 if the GPU or the CPU (AMX) has it, else fp32",
    )
    patience: int = Field(
        default=0,
        ge=0,
        description="epochs without gain before it stops; 0: never",
    )
    max_length: int = Field(default=128, ge=8, description="tokens per text")
    report_to: Transport[tuple[str, ...]] = Field(
        default=(), description="where to log the training, such as tensorboard"
    )


class TrainingWithoutValidation(TrainingConfig):
    """A training without validation, and thus without `patience`."""

    @field_validator("patience")
    @classmethod
    def _needs_validation(cls, patience: int) -> int:
        if patience:
            raise ValueError(
                "goes by validation, but nothing is validated in this training; remove it, and "
                "set `epochs`"
            )
        return patience


def choose_precision(config: TrainingConfig) -> str:
    """Choose the precision: the configured one, or the best one of this machine for "auto".

    Raises:
        InputError: fp16 without a GPU, or bf16 on a GPU without it.
    """
    import torch

    cuda = torch.cuda.is_available()
    has_bf16 = torch.cuda.is_bf16_supported() if cuda else _has_tiles()
    if config.precision == "auto":
        return "bf16" if has_bf16 else "fp32"
    if config.precision == "fp16" and not cuda:
        raise InputError(
            "training.precision: fp16 needs a GPU. Use fp32, bf16 or auto."
        )
    if config.precision == "bf16" and cuda and not has_bf16:
        raise InputError(
            "training.precision: this GPU has no bf16. Use fp16, fp32 or auto."
        )
    return config.precision


def find_inference_type() -> torch.dtype:
    """Choose the type for inference: half precision on a GPU, else 32 bits."""
    import torch

    if not torch.cuda.is_available():
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


@contextmanager
def full_precision(model: torch.nn.Module) -> Iterator[None]:
    """Use the model's own `forward` during the block.

    accelerate wraps it for a training in half precision.
    """
    trained = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if trained is not None:
            model.forward = trained


def end_training_precision(model: torch.nn.Module) -> None:
    """Remove the `forward` of accelerate from a model."""
    vars(model).pop("forward", None)
    vars(model).pop("_original_forward", None)


def _has_tiles() -> bool:
    """Whether the CPU multiplies matrices in bf16 with AMX.

    With AVX-512 alone bf16 is slower than fp32. Older versions of torch cannot tell.
    """
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)
    return ask is not None and bool(ask().get("amx_bf16", False))


METRIC = "recall@5"
"""The metric of the validation set."""

_LOG_STEPS = 10


def make_arguments(
    config: TrainingConfig, output: Path, seed: int, *, validates: bool
) -> dict[str, Any]:
    """Make the keyword arguments of (SentenceTransformer)TrainingArguments.

    Checkpoints go to `output`. If it `validates`, `METRIC` is computed after each epoch.

    Raises:
        InputError: this machine lacks the precision or a program to report to.
    """
    import torch

    cuda = torch.cuda.is_available()
    precision = choose_precision(config)
    schedule: str = config.schedule
    if schedule == "constant" and config.warmup:
        schedule = "constant_with_warmup"
    return {
        "output_dir": str(output.resolve()),
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation,
        "learning_rate": config.learning_rate,
        "weight_decay": config.weight_decay,
        "warmup_steps": config.warmup,
        "lr_scheduler_type": schedule,
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "seed": unsigned(seed, 32),
        "data_seed": unsigned(seed, 32),
        "save_strategy": "no",
        "eval_strategy": "epoch" if validates else "no",
        "metric_for_best_model": METRIC if validates else None,
        "restore_callback_states_from_checkpoint": True,
        "logging_strategy": "steps",
        "logging_steps": _LOG_STEPS,
        "report_to": _find_reporters(config),
        "disable_tqdm": True,
        "log_level": "error",
        "log_level_replica": "error",
        "remove_unused_columns": False,
        "dataloader_pin_memory": cuda,
        "use_cpu": not cuda and (world_size() > 1 or precision == "bf16"),
        "ddp_find_unused_parameters": world_size() > 1,
        "ddp_broadcast_buffers": False,
    }


def one_gpu(arguments: Any) -> Any:
    """Limit TrainingArguments to one GPU per process.

    Otherwise transformers would split each batch across all GPUs of the machine.
    """
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def check_training(config: TrainingConfig) -> None:
    """Refuse a training that this machine cannot do, before a run starts.

    Raises:
        InputError: this machine lacks the precision or a program to report to.
    """
    if config.precision not in ("auto", "fp32"):
        choose_precision(config)
    if config.report_to:
        _find_reporters(config)


def _find_reporters(config: TrainingConfig) -> list[str]:
    from transformers.integrations import integration_utils

    known = integration_utils.INTEGRATION_TO_CALLBACK
    available = integration_utils.get_available_reporting_integrations()  # type: ignore[no-untyped-call]
    for name in config.report_to:
        if name not in known:
            raise InputError(
                f"training.report_to: no program {name!r}. Choose one of "
                f"{', '.join(sorted(known))}."
            )
        if name not in available:
            raise InputError(
                f"training.report_to: {name} is not installed. Install it with: pip install {name}"
            )
    return list(config.report_to)


@dataclass(frozen=True)
class TrainingPlan:
    """A training to come: its title in the progress, and its steps (None if not known)."""

    title: str
    steps: int | None


def name_training(title: str, of: str) -> str:
    """Name a training of a fit; `of` is "" for the retriever's own fit."""
    return f"{title}, {of}" if of else title


def count_steps(examples: int, training: TrainingConfig) -> int:
    """Count the steps of a training as the Trainer does, without early stopping."""
    batches = math.ceil(examples / training.batch_size)
    batches = math.ceil(batches / world_size())
    an_epoch = max(1, math.ceil(batches / training.accumulation))
    return math.ceil(training.epochs * an_epoch)


@dataclass
class Saves:
    """The seconds that saving took in the trainings of one fit.

    `cost` is the time of the latest save, None before the first; `spent` is that of all saves.
    `trained` is the time of the trainings that ended, of which a kill would lose `unkept`.
    """

    cost: float | None = None
    spent: float = 0.0
    trained: float = 0.0
    unkept: float = 0.0


@dataclass(frozen=True)
class TrainingContext:
    """The seed of a training, and where it keeps its checkpoints.

    `checkpoints` is a folder of its own: a training that was killed resumes from there, and the
    folder goes when it is done. None keeps no checkpoints. `logs` is the folder of TensorBoard's
    files; None puts them with the checkpoints. `of` names the fit if it is not the retriever's own,
    such as "held-out part 1 of 2, for refiner". All trainings of a fit share `saves`. `clock`
    returns seconds, and `wait` lets so many pass, unless an event comes first; it returns whether
    that came.
    """

    seed: int = 0
    checkpoints: Path | None = None
    logs: Path | None = None
    of: str = ""
    saves: Saves = field(default_factory=Saves)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait

    def name(self, title: str) -> str:
        """Name a training of this title in this fit."""
        return name_training(title, self.of)

    def within(self, part: str) -> Self:
        """Return the context of a training inside this one, with its own folders."""
        return replace(
            self,
            checkpoints=self.checkpoints and self.checkpoints / part,
            logs=self.logs and self.logs / part,
        )
