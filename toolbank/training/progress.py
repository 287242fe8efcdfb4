"""How far a training is, on stderr."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from toolbank.training.ranks import rank


class Progress(TrainerCallback):
    """A bar of the steps with their rate, the loss, and the metric; none off a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}

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

    def close(self) -> None:
        """Take the bar away, however the training ended."""
        if self._bar is not None:
            self._bar.close()
