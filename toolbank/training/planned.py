"""Trainings to come: how many steps each takes, and what the time of a step follows from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from toolbank.training.config import TrainingConfig
from toolbank.training.ranks import world_size


@dataclass(frozen=True)
class PlannedTraining:
    """A training to come.

    `title` is what its progress is called; `task` says what a step computes, but for the network
    and the settings: such as "mnrl of 2 texts". `network` says how large the network is, such as
    "bert, 6 layers of 384"; "" where it isn't known. `steps` is None where that isn't known.
    """

    title: str
    task: str
    network: str
    training: TrainingConfig
    steps: int | None

    def within(self, of: str) -> Self:
        """The same in another fit, such as "held-out part 1 of 2, for refiner"."""
        return replace(self, title=name_training(self.title, of))


def name_training(title: str, of: str) -> str:
    """What a training is called in a fit; `of` is "" in a retriever's own."""
    return f"{title}, {of}" if of else title


def count_steps(examples: int, training: TrainingConfig) -> int:
    """Steps of a training on so many examples, if no patience ends it: as the Trainer counts."""
    batches = math.ceil(examples / training.batch_size)
    batches = math.ceil(batches / world_size())
    an_epoch = max(1, math.ceil(batches / training.accumulation))
    return math.ceil(training.epochs * an_epoch)
