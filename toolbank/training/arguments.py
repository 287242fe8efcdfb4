"""Settings of a training in transformers' words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbank.system.errors import InputError
from toolbank.system.numbers import unsigned
from toolbank.training.config import TrainingConfig
from toolbank.training.precision import choose_precision
from toolbank.training.ranks import world_size

METRIC = "recall@5"
"""What is taken of the validation set."""

_LOG_STEPS = 10


def make_arguments(
    config: TrainingConfig, output: Path, seed: int, *, validates: bool
) -> dict[str, Any]:
    """Keyword arguments of TrainingArguments and SentenceTransformerTrainingArguments.

    Checkpoints go to `output`; when they are written is not said here. Where it `validates`,
    `METRIC` is taken after each epoch.

    Raises:
        InputError: the precision or a program to report to can't be had on this machine.
    """
    import torch

    cuda = torch.cuda.is_available()
    precision = choose_precision(config)
    return {
        "output_dir": str(output.resolve()),
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation,
        "learning_rate": config.learning_rate,
        "weight_decay": config.weight_decay,
        "warmup_steps": config.warmup,
        "lr_scheduler_type": _schedule(config),
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
    """TrainingArguments of a process that trains on one GPU at most.

    Else transformers would cut each batch into a part for every GPU of the machine.
    """
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def check_training(config: TrainingConfig) -> None:
    """Refuse a training that this machine can't do, before anything is made for it.

    Raises:
        InputError: the precision or a program to report to can't be had on this machine.
    """
    if config.precision not in ("auto", "fp32"):
        choose_precision(config)
    if config.report_to:
        _find_reporters(config)


def _schedule(config: TrainingConfig) -> str:
    warms_up = config.warmup and config.schedule == "constant"
    return "constant_with_warmup" if warms_up else config.schedule


def _find_reporters(config: TrainingConfig) -> list[str]:
    from transformers.integrations import integration_utils

    known = integration_utils.INTEGRATION_TO_CALLBACK
    available = integration_utils.get_available_reporting_integrations()  # type: ignore[no-untyped-call]
    for name in config.report_to:
        if name not in known:
            raise InputError(
                f"training.report_to: no program {name!r}; there are "
                f"{', '.join(sorted(known))}."
            )
        if name not in available:
            raise InputError(
                f"training.report_to: {name} is not installed. Install it with: pip install {name}"
            )
    return list(config.report_to)
