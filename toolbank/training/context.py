"""What a training is given beside its examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class TrainingContext:
    """The seed, and where a training keeps what it can go on from.

    `checkpoints` is a folder of its own, kept until the training is done, from which one that
    was killed goes on; None: none are kept. `logs` is a folder for what TensorBoard shows;
    None: with the checkpoints.
    """

    seed: int = 0
    checkpoints: Path | None = None
    logs: Path | None = None

    def within(self, part: str) -> Self:
        """The same for a training inside this one, with folders of its own."""
        return replace(
            self,
            checkpoints=self.checkpoints and self.checkpoints / part,
            logs=self.logs and self.logs / part,
        )
