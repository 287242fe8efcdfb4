"""How fast this machine has trained what, kept in the user's folder of caches."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from toolbank.system.errors import ToolbankError
from toolbank.system.files import write_json
from toolbank.system.numbers import duration, span
from toolbank.system.outputs import cache_folder
from toolbank.training.config import PlannedTraining
from toolbank.training.ranks import world_size

_NAME = "training-rates.json"
_GPUS = Path("/proc/driver/nvidia/gpus")
# How many trainings of a kind are kept: a machine that did other work besides was slow in one.
_KEPT = 5
# Times that differ by less are one.
_ALIKE = 4 / 3
_CHOICE = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Rate:
    """Seconds a step took, validation and saving included, and bytes of memory at most.

    The memory is the GPU's where there is one, else the process's; None where no one tells.
    `day` says of which texts it is: longer ones take longer.
    """

    seconds: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
    memory: Annotated[int, Field(strict=True, gt=0)] | None
    day: date = field(default_factory=date.today)


@dataclass(frozen=True)
class Total:
    """Seconds of trainings whose steps and rate are known, at the fastest and the slowest rate.

    `unknown` are the titles of the others, and `days` those on which the rates were timed.
    """

    low: float
    high: float
    unknown: list[str]
    days: list[date]

    def describe(self) -> str:
        """Such as "about 40 min", or "unknown"."""
        return describe_time(self.low, self.high) if self.high else "unknown"


def _take_none(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Have rates that are broken, or of another version, be none, and the others stay."""
    try:
        return validate(value)
    except ValidationError:
        return []


_RATES = TypeAdapter(dict[str, Annotated[list[Rate], WrapValidator(_take_none)]])


def read_rates(planned: PlannedTraining) -> list[Rate]:
    """What was measured last of trainings like this; none where that can't be read."""
    return _read().get(make_key(planned), [])


def add_up(rated: Sequence[tuple[PlannedTraining, Sequence[Rate]]]) -> Total:
    """What trainings take, each with the rates of its like."""
    known = [(each.steps, rates) for each, rates in rated if each.steps and rates]
    low, high = (
        sum(steps * pick(rate.seconds for rate in rates) for steps, rates in known)
        for pick in (min, max)
    )
    return Total(
        low,
        high,
        [each.title for each, rates in rated if not (each.steps and rates)],
        sorted({rate.day for _, rates in known for rate in rates}),
    )


def describe_time(low: float, high: float) -> str:
    """Such as 40 min, or 2 min to 7 min where they are not alike."""
    low = max(low, 1)
    return f"about {duration(low) if high <= _ALIKE * low else span(duration(low), duration(high))}"


def write_rate(
    planned: PlannedTraining, rate: Rate, before: Rate | None = None
) -> None:
    """Keep what was measured, in place of what was `before` in the same training.

    Where that can't be written, it is measured again another time.
    """
    if not planned.network:
        return
    rates, key = _read(), make_key(planned)
    others = [each for each in rates.get(key, []) if each != before]
    rates[key] = [*others, rate][-_KEPT:]
    with suppress(OSError, ToolbankError):
        write_json(cache_folder() / _NAME, _RATES.dump_python(rates, mode="json"))


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


def _read() -> dict[str, list[Rate]]:
    try:
        return _RATES.validate_json((cache_folder() / _NAME).read_bytes())
    except (OSError, ValidationError):
        return {}
