"""The checkpoints of a training, and the weights of its best epoch."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.system.files import write_error
from toolbank.training.config import METRIC

if TYPE_CHECKING:
    import torch


BEST = "best.safetensors"


class BestWeights:
    """A copy of a model's weights when they were best; at first the initial ones.

    Each checkpoint includes those of the best epoch. The initial weights are not saved: a fit that
    resumes recreates them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._weights = _copy_weights(model)
        self._file: Path | None = None
        self.value: float | None = None
        self.is_of_an_epoch = False

    def look(self, value: float, step: int) -> None:
        """Copy the current weights if their figure is above the best one."""
        if self.value is not None and value <= self.value:
            return
        self.value = value
        if step:
            self._weights = _copy_weights(self._model)
            self._file, self.is_of_an_epoch = None, True

    def write(self, folder: Path, place: Path) -> None:
        """Write them to `folder`, which moves to `place` later; link them if they are on disk."""
        from safetensors.torch import save_file

        if not self.is_of_an_epoch:
            return
        path = folder / BEST
        if self._file is None or not _link(self._file, path):
            save_file(self._weights, path)
        self._file = place / BEST

    def read(self, folder: Path, value: float, *, is_of_an_epoch: bool) -> None:
        """Read the best weights at the time of a checkpoint."""
        from safetensors.torch import load_file

        self.value, self.is_of_an_epoch = value, is_of_an_epoch
        if is_of_an_epoch:
            self._file = folder / BEST
            self._weights = load_file(self._file)

    def put_back(self) -> None:
        """Copy these weights into the model."""
        self._model.load_state_dict(self._weights)


def _copy_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: values.detach().to("cpu", copy=True).contiguous()
        for name, values in model.state_dict().items()
    }


def _link(source: Path, target: Path) -> bool:
    """Hard-link a file; False if the file system cannot."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


STATE = "trainer_state.json"
ASIDE = "unfinished"
"""The folder where a checkpoint is written before it is moved."""

_KEPT = 2
# Without any of these, a training would not resume to the same weights.
_NEEDED = ("optimizer.pt", "scheduler.pt", "rng_state*.pth")


def place_checkpoint(made: Path, folder: Path) -> None:
    """Move a complete checkpoint to the others of the training, and remove all but the last two.

    Raises:
        ToolbankError: the folder is not writable, or the disk is full.
    """
    target = folder / made.name
    try:
        for path in made.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
        made.parent.rmdir()
    except OSError as error:
        raise write_error(target, error) from error
    for old in _newest_first(folder)[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def find_checkpoint(folder: Path) -> Path | None:
    """Find the newest complete checkpoint in a folder, and remove incomplete ones.

    A checkpoint is complete if its state is readable and no file of weights, of the best epoch's
    weights, or of the optimizer is missing or truncated. torch reads the states of the optimizer
    and the random generators with `weights_only`, so no code in them runs; a file that needs more
    makes the checkpoint incomplete.
    """
    shutil.rmtree(folder / ASIDE, ignore_errors=True)
    for path in _newest_first(folder):
        if _is_whole(path):
            return path
        shutil.rmtree(path, ignore_errors=True)
    return None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Read the steps, epochs and metrics of a checkpoint."""
    state: dict[str, Any] = json.loads((checkpoint / STATE).read_text())
    return state


def read_history(state: dict[str, Any]) -> tuple[float, ...]:
    """The validation figures before the training and after each epoch."""
    name = f"eval_{METRIC}"
    return tuple(float(log[name]) for log in state["log_history"] if name in log)


def find_best(history: Sequence[float]) -> int | None:
    """The first epoch with the best figure; None if there are no figures."""
    return history.index(max(history)) if history else None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)


def _step(path: Path) -> int:
    number = path.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        state = read_state(path)
        best = find_best(read_history(state))
        files = list(path.rglob("*.safetensors"))
        for file in files:
            with safe_open(file, "pt") as opened:
                opened.keys()
    except (OSError, ValueError, LookupError, TypeError, SafetensorError):
        return False
    states = [*path.glob("*.pt"), *path.glob("*.pth")]
    return (
        any(file.name != BEST for file in files)
        and (not best or (path / BEST).is_file())
        and all(_is_readable(file) for file in states)
        and all(any(path.glob(name)) for name in _NEEDED)
    )


def _is_readable(file: Path) -> bool:
    import torch
    from transformers.trainer_pt_utils import safe_globals

    try:
        with safe_globals():  # type: ignore[no-untyped-call]
            torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError):
        return False
    return True
