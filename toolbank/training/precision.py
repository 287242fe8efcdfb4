"""How many bits a training computes with; weights, losses and all that is not training have 32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbank.system.errors import InputError
from toolbank.training.config import TrainingConfig

if TYPE_CHECKING:
    import torch


def choose_precision(config: TrainingConfig) -> str:
    """The precision asked for, or the one that suits this machine: fp32, bf16, or fp16.

    Raises:
        InputError: fp16 without a GPU, or bf16 on a GPU that lacks it.
    """
    import torch

    cuda = torch.cuda.is_available()
    has_bf16 = torch.cuda.is_bf16_supported() if cuda else _has_tiles()
    if config.precision == "auto":
        return "bf16" if has_bf16 else "fp32"
    if config.precision == "fp16" and not cuda:
        raise InputError(
            "training.precision: fp16 needs a GPU. Use fp32 or bf16 here, or auto."
        )
    if config.precision == "bf16" and cuda and not has_bf16:
        raise InputError(
            "training.precision: this GPU has no bf16. Use fp16 or fp32, or auto."
        )
    return config.precision


def find_inference_type() -> torch.dtype:
    """What a language model that is only read computes in: half precision on a GPU, else 32 bits."""
    import torch

    if not torch.cuda.is_available():
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


@contextmanager
def full_precision(model: torch.nn.Module) -> Iterator[None]:
    """Have a model in training compute as it will once it is trained and saved.

    For a training in fewer bits accelerate puts another `forward` before the model's own.
    """
    trained = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if trained is not None:
            model.forward = trained


def end_training_precision(model: torch.nn.Module) -> None:
    """Give a model its own `forward` back."""
    vars(model).pop("forward", None)
    vars(model).pop("_original_forward", None)


def _has_tiles() -> bool:
    """Whether the CPU multiplies matrices in bf16 by AMX.

    By AVX-512 alone it has bf16 as well, but it is slower there than fp32. An older torch can't
    tell.
    """
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)
    return ask is not None and bool(ask().get("amx_bf16", False))
