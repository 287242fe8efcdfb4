"""What a training is given beside its examples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from toolbank.training.planned import PlannedTraining, name_training


@dataclass
class Saves:
    """What saving took in the trainings of one fit up to now, all in seconds.

    `cost` is what the latest save took, None before the first; `spent` what all took, of
    `trained`, the time of the trainings that ended. `unkept` of that a kill would lose.
    """

    cost: float | None = None
    spent: float = 0.0
    trained: float = 0.0
    unkept: float = 0.0


@dataclass(frozen=True)
class TrainingContext:
    """The seed, and where a training keeps what it can go on from.

    `checkpoints` is a folder of its own, kept until the training is done, from which one that
    was killed goes on; None: none are kept. `logs` is a folder for what TensorBoard shows;
    None: with the checkpoints. `of` says which fit it is in, where that is not a retriever's
    own, such as "held-out part 1 of 2, for refiner". `planned` are the trainings that are known
    to come, this one among them, in their order. `most_steps` ends each after so many, for what
    only measures them. `saves` is shared by all trainings of a fit. `clock` gives seconds, and
    `wait` lets so many go by unless an event comes first, which it tells.
    """

    seed: int = 0
    checkpoints: Path | None = None
    logs: Path | None = None
    of: str = ""
    planned: tuple[PlannedTraining, ...] = ()
    most_steps: int | None = None
    saves: Saves = field(default_factory=Saves)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait

    def name(self, title: str) -> str:
        """What a training of this title is called here."""
        return name_training(title, self.of)

    def within(self, part: str) -> Self:
        """The same for a training inside this one, with folders of its own."""
        return replace(
            self,
            checkpoints=self.checkpoints and self.checkpoints / part,
            logs=self.logs and self.logs / part,
        )
