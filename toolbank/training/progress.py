"""How far a training is, on stderr."""

from __future__ import annotations

import time
from typing import Any

from tqdm import tqdm
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from toolbank.system.numbers import duration
from toolbank.system.terminal import print_above_bars
from toolbank.training.ranks import rank

# Off a terminal, seconds from one line to the next at the least.
_PAUSE_S = 60.0


class Progress(TrainerCallback):
    """A bar of the steps with their rate, the loss, and the metric.

    Off a terminal, an epoch that ends a minute after the last line or later has a line.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}
        self._begun_at = 0.0
        self._told_at = 0.0
        self._first_step = 0

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Start the bar where the training starts or goes on."""
        self._bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            desc=self._title,
            unit="step",
            disable=True if rank() else None,
        )
        self._begun_at = self._told_at = time.monotonic()
        self._first_step = state.global_step
        if not rank() and 0 < state.global_step < state.max_steps:
            print_above_bars(f"{self._title}: goes on from {_name_epoch(state)}")

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Move on."""
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

    def on_save(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Where there is no bar, say how far it is; an epoch's validation is before its save."""
        now = time.monotonic()
        is_shown = self._bar is not None and not self._bar.disable
        if rank() or is_shown or now - self._told_at < _PAUSE_S:
            return
        self._told_at = now
        pace = (now - self._begun_at) / (state.global_step - self._first_step)
        steps = state.max_steps - state.global_step
        left = f", about {duration(pace * steps)} left" if steps > 0 else ""
        figures = "".join(f", {name} {value}" for name, value in self._shown.items())
        print_above_bars(f"{self._title}: {_name_epoch(state)}{figures}{left}")

    def close(self) -> None:
        """Take the bar away, however the training ended."""
        if self._bar is not None:
            self._bar.close()


def _name_epoch(state: TrainerState) -> str:
    return f"epoch {round(state.epoch or 0)} of {state.num_train_epochs:g}"
