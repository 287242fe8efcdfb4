"""How fast this machine has trained what, kept in the user's folder of caches."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeGuard

from toolbank.system.errors import ToolbankError
from toolbank.system.files import write_json
from toolbank.system.user_folders import cache_folder
from toolbank.training.planned import PlannedTraining
from toolbank.training.ranks import world_size

_NAME = "training-rates.json"
_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True)
class Rate:
    """Seconds a step took, validation and saving included, and bytes of memory at most.

    The memory is the GPU's where there is one, else the process's; None where no one tells.
    """

    seconds: float
    memory: int | None


def read_rate(planned: PlannedTraining) -> Rate | None:
    """What was measured of trainings like this; None where nothing was, or it can't be read."""
    if not planned.network:
        return None
    found = _read().get(make_key(planned))
    if not isinstance(found, dict):
        return None
    seconds, memory = found.get("seconds"), found.get("memory")
    if not _is_number(seconds):
        return None
    return Rate(float(seconds), int(memory) if _is_number(memory) else None)


def write_rate(planned: PlannedTraining, rate: Rate) -> None:
    """Keep what was measured. Where that can't be written, it is measured again another time."""
    if not planned.network:
        return
    key = make_key(planned)
    with suppress(OSError, ToolbankError):
        write_json(cache_folder() / _NAME, {**_read(), key: asdict(rate)})


def make_key(planned: PlannedTraining) -> str:
    """The name of all that the time of a step follows from, here and on this machine."""
    training = planned.training
    return ", ".join(
        (
            planned.task,
            planned.network,
            f"{training.max_length} tokens",
            f"batch {training.batch_size} x {training.accumulation} x {world_size()}",
            training.precision,
            describe_machine(),
        )
    )


def describe_machine() -> str:
    """What trains here: the GPU, or the threads of the CPU; and which torch. It isn't imported."""
    version = metadata.version("torch")
    threads = os.environ.get("OMP_NUM_THREADS") or str(os.cpu_count())
    counted = "1 thread" if threads == "1" else f"{threads} threads"
    return ", ".join((_find_gpu() or "CPU", counted, f"torch {version}"))


def _find_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return ""
    for path in sorted(_GPUS.glob("*/information")):
        with suppress(OSError):
            for line in path.read_text(errors="replace").splitlines():
                name, _, value = line.partition(":")
                if name == "Model":
                    return value.strip()
    return ""


def _read() -> dict[str, Any]:
    try:
        found = json.loads((cache_folder() / _NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0
