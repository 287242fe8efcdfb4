"""The weights with the best figure on validation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BEST = "best.safetensors"


class BestWeights:
    """A copy of a model's weights from when they were best; at first those it begins with.

    On disk, where they are those of an epoch, they stand beside a checkpoint. Those before the
    training don't: a fit that goes on makes them anew.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._weights = _copy_weights(model)
        self._file: Path | None = None
        self.value: float | None = None
        self.is_of_an_epoch = False

    def look(self, value: float, step: int) -> None:
        """Take the model's weights as they are, if their figure is above the best one's."""
        if self.value is not None and value <= self.value:
            return
        self.value = value
        if step:
            self._weights = _copy_weights(self._model)
            self._file, self.is_of_an_epoch = None, True

    def write(self, folder: Path, place: Path) -> None:
        """Write them to `folder`, which will be moved to `place`; a link where they are on disk."""
        from safetensors.torch import save_file

        if not self.is_of_an_epoch:
            return
        path = folder / BEST
        if self._file is None or not _link(self._file, path):
            save_file(self._weights, path)
        self._file = place / BEST

    def read(self, folder: Path, value: float, *, is_of_an_epoch: bool) -> None:
        """Take over what was the best when a checkpoint was written."""
        from safetensors.torch import load_file

        self.value, self.is_of_an_epoch = value, is_of_an_epoch
        if is_of_an_epoch:
            self._file = folder / BEST
            self._weights = load_file(self._file)

    def put_back(self) -> None:
        """Give the model these weights."""
        self._model.load_state_dict(self._weights)


def _copy_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: values.detach().to("cpu", copy=True).contiguous()
        for name, values in model.state_dict().items()
    }


def _link(source: Path, target: Path) -> bool:
    """Give a file a second name, if the file system has that."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True
