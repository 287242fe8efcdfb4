"""Callbacks of a training: its checkpoints, and its progress on stderr."""

# The library calls every callback with `args`, `state` and `control`.
# ruff: noqa: ARG002
from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback
from transformers import TrainerControl as Control
from transformers import TrainerState as State

from toolbank.system.numbers import duration, seconds
from toolbank.system.terminal import print_above_bars, print_amid_writes
from toolbank.training.config import Saves
from toolbank.training.ranks import broadcast, rank, world_size

# A kill loses at most this much work of a fit, unless saving is slow:
_PAUSE_S = 120.0
# after the first save, all saves together take at most this share of the training time.
_SHARE = 0.05
# Finished trainings may make up this share of the unsaved work. Otherwise the trainings after them
# would be saved ever more often.
_ENDED = 0.5
# A first signal waits for the current step to finish if a step takes no longer than this.
_PATIENCE_S = 30.0

Clock = Callable[[], float]


class Saving(TrainerCallback):
    """Save a training when it is due, and report what is kept of it.

    A save is due when a kill would lose two minutes of work, including the trainings of the same fit
    that ended without a save. After the first save, all saves of the fit together take at most a
    twentieth of its time. At its end a training is saved within the same limit or, before the first
    save, if a kill would lose one minute. `kept` is the step on disk, 0 for none.

    The last step of an epoch is saved after its validation, whose figure is part of the checkpoint.
    """

    def __init__(self, title: str, clock: Clock, saves: Saves) -> None:
        self._title = title
        self._clock = clock
        self._saves = saves
        self._begun_at = self._saved_at = self._step_at = clock()
        self._step_s = 0.0
        self._is_stopping = False
        self._in_steps = False
        self.kept = 0
        self._last = 0

    def describe_kept(self) -> str:
        """Say which step is on disk, and how to resume."""
        if not self.kept:
            return (
                f"Nothing is kept of {self._title}, which was not saved yet. "
                "The same command starts it again."
            )
        return (
            f"Step {self.kept:,} of {self._last:,} of {self._title} is kept. "
            "The same command goes on from there."
        )

    @contextmanager
    def stopping_at_a_step(self) -> Iterator[None]:
        """End the training on a first Ctrl-C or SIGTERM once its step is done and saved.

        A second signal ends it at once, and so does the first if a step takes long or no step is
        running, as in a validation. Signals without a Python handler keep their behavior, and so do
        all signals if several processes train.
        """
        if (
            world_size() > 1
            or threading.current_thread() is not threading.main_thread()
        ):
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {n: h for n in numbers if callable(h := signal.getsignal(n))}
        for number in before:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def timed(self, step: int) -> Iterator[None]:
        """Time the save of a step; the step counts as kept if the block succeeds."""
        begun = self._clock()
        yield
        self._saved_at = self._clock()
        self._saves.cost = self._saved_at - begun
        self._saves.spent += self._saves.cost
        self.kept = step

    @contextmanager
    def out_of_steps(self) -> Iterator[None]:
        """Let a signal end the training at once in this block, where no step is running."""
        before, self._in_steps = self._in_steps, False
        try:
            yield
        finally:
            self._in_steps = before

    def on_train_begin(self, args: Any, state: State, control: Any, **_: Any) -> None:
        """Start the clock."""
        self._begun_at = self._saved_at = self._clock()
        self.kept, self._last = state.global_step, state.max_steps

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note when the step begins."""
        self._in_steps, self._step_at = True, self._clock()

    def on_step_end(self, args: Any, state: State, control: Control, **_: Any) -> None:
        """Save within an epoch."""
        self._step_s = self._clock() - self._step_at
        if float(state.epoch or 0).is_integer() or state.global_step >= state.max_steps:
            return
        if broadcast(self._is_stopping or self._is_due()):
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Control, **_: Any) -> None:
        """Save after an epoch, or at the end."""
        ends = control.should_training_stop
        if broadcast(self._is_stopping or self._is_due(ends=ends)):
            control.should_save = True

    def on_evaluate(self, args: Any, state: State, control: Control, **_: Any) -> None:
        """Save if the validation ends the training."""
        ends = control.should_training_stop and state.global_step > 0
        if ends and broadcast(self._is_due(ends=True)):
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the training if a signal requested that."""
        if self._is_stopping:
            raise KeyboardInterrupt

    def on_train_end(self, args: Any, state: State, control: Any, **_: Any) -> None:
        """Add the time of this training to its fit."""
        now = self._clock()
        self._saves.trained += now - self._begun_at
        if self.kept < state.global_step:
            self._saves.unkept += now - self._saved_at

    def _is_due(self, *, ends: bool = False) -> bool:
        """Whether a kill would lose enough work for a save, within the limit of all saves."""
        now, saves = self._clock(), self._saves
        lost = saves.unkept + now - self._saved_at
        if saves.cost is None:
            return lost >= (_ENDED * _PAUSE_S if ends else _PAUSE_S)
        total = saves.trained + now - self._begun_at + saves.cost
        fits = saves.spent + saves.cost <= _SHARE * total
        return fits and (ends or lost >= _PAUSE_S)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        waits = self._in_steps and self._step_s <= _PATIENCE_S
        if self._is_stopping or not waits:
            raise KeyboardInterrupt
        self._is_stopping = True
        if rank() == 0:
            print_amid_writes(
                "stopping when this step is done and kept; a second Ctrl-C or SIGTERM stops at "
                "once."
            )


# Steps after which the pace is known.
_PACE_STEPS = 10
# Seconds between progress lines if stderr is not a terminal.
_PROGRESS_PAUSE_S = 60.0

Wait = Callable[[threading.Event, float], bool]


class Progress(TrainerCallback):
    """Show a bar with the steps, their rate, the loss and the metric.

    If stderr is not a terminal, print a line every minute instead, even during a validation.
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

    def on_train_begin(self, args: Any, state: State, control: Any, **_: Any) -> None:
        """Start the bar at the step where the training starts or resumes."""
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
            threading.Thread(target=self._print_lines, daemon=True).start()

    def on_step_end(self, args: Any, state: State, control: Any, **_: Any) -> None:
        """Advance the bar."""
        self._step = state.global_step
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, *_: Any, logs: dict[str, float] | None = None, **__: Any) -> None:
        """Show the latest loss and metric."""
        for name, value in (logs or {}).items():
            if name == "loss" or name.startswith("eval_"):
                self._shown[name.removeprefix("eval_")] = f"{value:.4g}"
        if self._bar is not None:
            self._bar.set_postfix(self._shown)

    def describe(self) -> str:
        """Say which step is done and kept, and after ten steps the pace and the time left."""
        done, left = self._step - self._first_step, self._last - self._step
        passed = self._clock() - self._begun_at
        parts = [f"{self._title}: step {self._step:,} of {self._last:,}"]
        if done >= _PACE_STEPS:
            parts.append(f"{seconds(passed / done)} a step")
        parts += [f"{name} {value}" for name, value in self._shown.items()]
        if done >= _PACE_STEPS and left:
            parts.append(f"about {duration(passed / done * left)} left")
        kept = self._saving.kept
        parts.append(f"step {kept:,} is kept" if kept else "nothing is kept yet")
        return ", ".join(parts)

    def close(self) -> None:
        """Remove the bar."""
        self._ended.set()
        if self._bar is not None:
            self._bar.close()

    def _print_lines(self) -> None:
        while not self._wait(self._ended, _PROGRESS_PAUSE_S):
            print_above_bars(self.describe())
