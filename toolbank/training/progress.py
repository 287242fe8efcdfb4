"""How far a training is, on stderr."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tqdm import tqdm
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from toolbank.system.numbers import count, duration, seconds
from toolbank.system.terminal import print_above_bars
from toolbank.training.measuring import STEPS
from toolbank.training.ranks import rank
from toolbank.training.saving import Clock, Saving

# Off a terminal, seconds from one line to the next.
_PROGRESS_PAUSE_S = 60.0

Wait = Callable[[threading.Event, float], bool]


class Progress(TrainerCallback):
    """A bar of the steps with their rate, the loss, and the metric; off a terminal a line a minute.

    The lines come by the clock, whatever the training does meanwhile.
    """

    def __init__(self, title: str, saving: Saving, clock: Clock, wait: Wait) -> None:
        self._title = title
        self._saving = saving
        self._clock = clock
        self._wait = wait
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}
        self._begun_at = 0.0
        self._first_step = self._step = self._last = 0
        self._ended = threading.Event()

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Start the bar where the training starts or goes on."""
        self._first_step = self._step = state.global_step
        self._last = state.max_steps
        self._begun_at = self._clock()
        self._bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            desc=self._title,
            unit="step",
            disable=True if rank() else None,
        )
        if rank():
            return
        if 0 < state.global_step < state.max_steps:
            print_above_bars(
                f"{self._title}: goes on from step {state.global_step:,} of {self._last:,}"
            )
        if self._bar.disable and state.global_step < state.max_steps:
            threading.Thread(target=self._tell_on, daemon=True).start()

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Move on."""
        self._step = state.global_step
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Show the latest loss and metric."""
        for name, value in (logs or {}).items():
            if name == "loss" or name.startswith("eval_"):
                self._shown[name.removeprefix("eval_")] = f"{value:.4g}"
        if self._bar is not None:
            self._bar.set_postfix(self._shown)

    def describe(self) -> str:
        """How far it is, how fast, how long it will take, and what a stop would leave.

        How fast, and how long, is told of ten steps; before them, what they took up to now.
        """
        done, left = self._step - self._first_step, self._last - self._step
        passed = self._clock() - self._begun_at
        parts = [f"{self._title}: step {self._step:,} of {self._last:,}"]
        if done >= STEPS:
            parts.append(f"{seconds(passed / done)} a step")
        elif done:
            parts.append(f"{count(done, 'step')} in {duration(passed)}")
        parts += [f"{name} {value}" for name, value in self._shown.items()]
        if done >= STEPS and left:
            parts.append(f"about {duration(passed / done * left)} left")
        kept = self._saving.kept
        parts.append(f"step {kept:,} is kept" if kept else "nothing is kept yet")
        return ", ".join(parts)

    def close(self) -> None:
        """Take the bar away, however the training ended."""
        self._ended.set()
        if self._bar is not None:
            self._bar.close()

    def _tell_on(self) -> None:
        while not self._wait(self._ended, _PROGRESS_PAUSE_S):
            print_above_bars(self.describe())
