"""Callbacks of a training: when it is saved, how fast it is, and its progress on stderr."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tqdm import tqdm
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from toolbank.system.numbers import count, duration, seconds
from toolbank.system.terminal import print_above_bars, print_amid_writes
from toolbank.training.config import Saves
from toolbank.training.ranks import broadcast, rank, world_size

# At most so much work of a fit is lost by a kill, unless saving is slow,
_PAUSE_S = 120.0
# which takes at most this share of its trainings' time once the first save was timed.
_SHARE = 0.05
# Of that work, trainings that ended have this share at most: those after them would be saved
# ever more often.
_ENDED = 0.5
# Who asks to stop waits for a step that takes no longer, so that it is kept.
_PATIENCE_S = 30.0

Clock = Callable[[], float]


class Saving(TrainerCallback):
    """Has a training saved when it is time, and says what of it is kept.

    That is when a kill would lose two minutes, with the trainings of the same fit that ended
    without being kept; and later where a save takes long: all saves of the fit together have at
    most a twentieth of its time, but for the first, by which it is known what one takes. At its
    end a training is saved if that costs no more, or before the first save if a kill would lose
    one minute. `kept` is the step that is on disk, 0 for none.

    An epoch's last step is saved after its validation, which goes with it.
    """

    def __init__(self, title: str, clock: Clock, saves: Saves) -> None:
        self._title = title
        self._clock = clock
        self._saves = saves
        self._begun_at = self._saved_at = self._step_at = clock()
        self._step_s = 0.0
        self._is_asked = False
        self._in_steps = False
        self.kept = 0
        self._last = 0

    def describe_kept(self) -> str:
        """What a stop at this moment leaves, and how one goes on."""
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
        """Have a first Ctrl-C or SIGTERM end the training when its step is done and saved.

        It ends at once where the step takes long, out of the steps, as in a validation, and at
        the second. Signals that nobody minds here stay as they are, and so do all of them where
        several processes train.
        """
        if (
            world_size() > 1
            or threading.current_thread() is not threading.main_thread()
        ):
            yield
            return
        minded = (signal.SIGINT, signal.SIGTERM)
        before = {n: h for n in minded if callable(h := signal.getsignal(n))}
        for number in before:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def timed(self, step: int) -> Iterator[None]:
        """Time a save of a step, which is kept if it ends well."""
        begun = self._clock()
        yield
        self._saved_at = self._clock()
        self._saves.cost = self._saved_at - begun
        self._saves.spent += self._saves.cost
        self.kept = step

    @contextmanager
    def out_of_steps(self) -> Iterator[None]:
        """Have a signal end the training at once in here: there is no step to wait for."""
        before, self._in_steps = self._in_steps, False
        try:
            yield
        finally:
            self._in_steps = before

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Begin to count the time."""
        self._begun_at = self._saved_at = self._clock()
        self.kept, self._last = state.global_step, state.max_steps

    def on_step_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Note when a step begins."""
        self._in_steps, self._step_at = True, self._clock()

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Save within an epoch."""
        self._step_s = self._clock() - self._step_at
        if float(state.epoch or 0).is_integer() or state.global_step >= state.max_steps:
            return
        if broadcast(self._is_asked or self._is_due()):
            control.should_save = True

    def on_epoch_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Save after an epoch, or at the end."""
        ends = control.should_training_stop
        if broadcast(self._is_asked or self._is_due(ends=ends)):
            control.should_save = True

    def on_evaluate(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Save where the validation ends the training."""
        ends = control.should_training_stop and state.global_step > 0
        if ends and broadcast(self._is_due(ends=True)):
            control.should_save = True

    def on_save(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """End the training if that is what was asked for."""
        if self._is_asked:
            raise KeyboardInterrupt

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Count the training among those of its fit that ended."""
        now = self._clock()
        self._saves.trained += now - self._begun_at
        if self.kept < state.global_step:
            self._saves.unkept += now - self._saved_at

    def _is_due(self, *, ends: bool = False) -> bool:
        """Whether a kill would lose so much that another save keeps to its share."""
        now, saves = self._clock(), self._saves
        lost = saves.unkept + now - self._saved_at
        if saves.cost is None:
            return lost >= (_ENDED * _PAUSE_S if ends else _PAUSE_S)
        total = saves.trained + now - self._begun_at + saves.cost
        fits = saves.spent + saves.cost <= _SHARE * total
        return fits and (ends or lost >= _PAUSE_S)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        waits = self._in_steps and self._step_s <= _PATIENCE_S
        if self._is_asked or not waits:
            raise KeyboardInterrupt
        self._is_asked = True
        if rank() == 0:
            print_amid_writes(
                "stopping when this step is done and kept; a second Ctrl-C or SIGTERM stops at "
                "once."
            )


# The pace is told only of so many steps.
_PACE_STEPS = 10
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
        if done >= _PACE_STEPS:
            parts.append(f"{seconds(passed / done)} a step")
        elif done:
            parts.append(f"{count(done, 'step')} in {duration(passed)}")
        parts += [f"{name} {value}" for name, value in self._shown.items()]
        if done >= _PACE_STEPS and left:
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
