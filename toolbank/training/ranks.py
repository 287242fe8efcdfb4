"""The processes of a training under torchrun, and what libraries print during it."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

# The other processes wait while the first one crawls, generates and evaluates.
_PATIENCE = timedelta(days=30)

T = TypeVar("T")


def rank() -> int:
    """The number of this process among those that torchrun started; 0 without torchrun."""
    return int(os.environ["RANK"]) if world_size() > 1 else 0


def world_size() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if "LOCAL_RANK" in os.environ else 1


def join_ranks() -> None:
    """Join the process group, once; do nothing without torchrun.

    Tensors on CPUs are exchanged by gloo, those on GPUs by NCCL.
    """
    if world_size() == 1:
        return
    # torch reads this at import. Without it, every process would print advice on DDP.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch
    from torch import distributed

    if distributed.is_initialized():
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=_PATIENCE
    )


def is_joined() -> bool:
    """Whether this process is in a process group."""
    if world_size() == 1:
        return False
    from torch import distributed

    return distributed.is_initialized()


def leave_ranks() -> None:
    """Leave the process group; processes that wait for this one get an error."""
    if is_joined():
        from torch import distributed

        distributed.destroy_process_group()


def broadcast(value: T) -> T:
    """Return the `value` of the first process in every process; all must call it."""
    if world_size() == 1:
        return value
    join_ranks()
    import torch
    from torch import distributed

    box = [value]
    distributed.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


def wait_for_ranks() -> None:
    """Wait until all processes have called this."""
    broadcast(None)


_LOGGERS = ("sentence_transformers", "huggingface_hub", "datasets")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the progress bars, notes and warnings of the libraries."""
    from transformers.utils import logging as transformers_logging

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        transformers_logging.set_verbosity(verbosity)
