"""How fast this machine has trained what, kept in the user's folder of caches."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date
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
_CHOICE = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Rate:
    """Seconds a step took, validation and saving included, and bytes of memory at most.

    The memory is the GPU's where there is one, else the process's; None where no one tells.
    `day`, such as "2026-11-20", says of which texts it is: longer ones take longer.
    """

    seconds: float
    memory: int | None
    day: str = field(default_factory=lambda: date.today().isoformat())


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
    try:
        day = date.fromisoformat(found.get("day", "")).isoformat()
    except (TypeError, ValueError):
        return None
    return Rate(float(seconds), int(memory) if _is_number(memory) else None, day)


def add_up(
    rated: Sequence[tuple[PlannedTraining, Rate | None]],
) -> tuple[float, list[str], list[str]]:
    """The seconds of the trainings whose steps and rate are known, the days that they were timed.

    And before these the titles of the other trainings.
    """
    known = [(each.steps, rate) for each, rate in rated if each.steps and rate]
    return (
        sum(steps * rate.seconds for steps, rate in known),
        [each.title for each, rate in rated if not (each.steps and rate)],
        sorted({rate.day for _, rate in known}),
    )


def write_rate(planned: PlannedTraining, rate: Rate) -> None:
    """Keep what was measured. Where that can't be written, it is measured again another time."""
    if not planned.network:
        return
    key = make_key(planned)
    with suppress(OSError, ToolbankError):
        write_json(cache_folder() / _NAME, {**_read(), key: asdict(rate)})


def make_key(planned: PlannedTraining) -> str:
    """The name of what the time of a step follows from on this machine, but for the texts."""
    training = planned.training
    return ", ".join(
        (
            planned.task,
            planned.network,
            f"{training.max_length} tokens",
            f"batch {training.batch_size} x {training.accumulation} x {world_size()}",
            training.precision,
            platform.node(),
            f"{os.cpu_count()} CPUs",
            describe_machine(),
        )
    )


def describe_machine() -> str:
    """What trains here: the GPU, or the threads of the CPU; and which torch. It isn't imported.

    Which of different GPUs a number in CUDA_VISIBLE_DEVICES is, the driver knows alone: all are
    named, and what is set.
    """
    version = metadata.version("torch")
    threads = os.environ.get("OMP_NUM_THREADS") or str(os.cpu_count())
    counted = "1 thread" if threads == "1" else f"{threads} threads"
    return ", ".join((_describe_gpus() or "CPU", counted, f"torch {version}"))


def _describe_gpus() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return ""
    models = set()
    for path in _GPUS.glob("*/information"):
        with suppress(OSError):
            text = path.read_text(errors="replace")
            models |= {m.strip() for m in re.findall(r"^Model:(.*)$", text, re.M)}
    chosen = [f"{name}={os.environ[name]}" for name in _CHOICE if name in os.environ]
    return ", ".join((" or ".join(sorted(models)), *chosen)) if models else ""


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
