"""How long a training will take, by its first ten steps; and those after it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars
from toolbank.training.planned import PlannedTraining
from toolbank.training.ranks import rank
from toolbank.training.rates import (
    Rate,
    add_up,
    describe_time,
    make_key,
    read_rates,
    write_rate,
)
from toolbank.training.saving import Clock

STEPS = 10
"""Steps that are timed before anything is said."""

# What is over sooner needs no word.
_WORTH_SAYING_S = 60.0


class Measuring(TrainerCallback):
    """Times the first ten steps, says how long all takes, and keeps the rate for other trainings.

    `planned` are the trainings that are known to come. When one ends, its rate is kept anew: the
    first steps may have had long texts. A rate is of all the time between the first step and the
    last one, by steps.
    """

    def __init__(
        self, title: str, planned: Sequence[PlannedTraining], clock: Clock
    ) -> None:
        titles = [each.title for each in planned]
        place = titles.index(title) if title in titles else len(titles)
        self._title = title
        self._own = planned[place] if place < len(planned) else None
        self._ahead = planned[place + 1 :]
        self._clock = clock
        self._begun_at = 0.0
        self._steps = 0
        self._kept: Rate | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Begin to time; after the validation that may come first."""
        self._begun_at = self._clock()

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Say how long it takes once ten steps are done."""
        self._steps += 1
        if self._steps == STEPS and rank() == 0:
            rate = self._keep()
            left = state.max_steps - state.global_step
            like = self._own and make_key(self._own)
            rates = [
                [rate] if make_key(each) == like else read_rates(each)
                for each in self._ahead
            ]
            for line in describe_ahead(
                self._title, rate, left, list(zip(self._ahead, rates, strict=True))
            ):
                print_above_bars(line)

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Keep the rate of all of it."""
        if self._steps > STEPS and rank() == 0:
            self._keep()

    def _keep(self) -> Rate:
        rate = Rate((self._clock() - self._begun_at) / self._steps, _measure_memory())
        if self._own is not None:
            write_rate(self._own, rate, self._kept)
        self._kept = rate
        return rate


def describe_ahead(
    title: str,
    rate: Rate,
    left: int,
    ahead: Sequence[tuple[PlannedTraining, Sequence[Rate]]],
) -> list[str]:
    """What a training and those after it take, by a rate just measured and theirs, if known.

    Nothing where that is less than a minute.
    """
    own = rate.seconds * left
    total = add_up(ahead)
    if own + total.high < _WORTH_SAYING_S:
        return []
    lines = [f"{title}: {count(left, 'step')} to go, {describe_time(own, own)}"]
    if later := len(ahead) - len(total.unknown):
        others = (
            "the training after it" if later == 1 else f"{later} trainings after it"
        )
        earlier = ", ".join(f"{day}" for day in total.days if day != rate.day)
        timed = f", if its texts are like those of {earlier}" if earlier else ""
        took = describe_time(own + total.low, own + total.high)
        lines.append(f"{title}: {took} with {others}{timed}")
    if total.unknown:
        unknown = "; ".join(total.unknown)
        lines.append(f"how long they take is not known yet of: {unknown}")
    return lines


def _measure_memory() -> int | None:
    """Bytes at most up to now: of the GPU where there is one, else of the process, if known."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
