"""Fitting a retriever, by this process alone or with others that torchrun started.

The first process runs all stages; the others wait to be given a fit, and take part in it, so
that a training in it is shared out. What they make is thrown away: the weights are the same.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Labels
from toolbank.run.folder import RunFolder
from toolbank.training.config import PlannedTraining
from toolbank.training.ranks import broadcast, is_joined, join_ranks, leave_ranks

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.kind import RetrieverConfig

# How long another process that failed leaves it to the first one to say why.
_GRACE_S = 5.0


@dataclass(frozen=True)
class Fit:
    """A fit that all processes are given: of which retriever, on the bank of which run.

    `planned` are its trainings, and those of the fits after it. `labels` are those that it learns
    from.
    """

    config: RetrieverConfig
    run: Path
    seed: int
    checkpoints: Path
    planned: tuple[PlannedTraining, ...] = ()
    labels: Labels = "verified"


def load_labelled(folder: RunFolder, labels: Labels) -> Bank:
    """The bank of a run as it is learnt from, by its verified labels or those written first.

    Raises:
        InputError: a file is missing, damaged, or not of this layout.
    """
    from toolbank.bank.bank import Bank

    bank = Bank.load(folder.bank)
    return bank.with_verified() if labels == "verified" else replace(bank, labels=())


def fit_together(fit: Fit) -> Retriever:
    """In the first process: fit a retriever, the others taking part."""
    broadcast(fit)
    try:
        return _fit(fit)
    except BaseException:
        # The others may be anywhere in the fit; they end when this process does.
        leave_ranks()
        raise


@contextmanager
def leading() -> Iterator[None]:
    """In the first process: when the block ends, however it does, the others end too."""
    join_ranks()
    try:
        yield
    finally:
        if is_joined():
            broadcast(None)
            leave_ranks()


def take_part() -> None:
    """In any other process: take part in fits until the first one ends."""
    # Ctrl-C reaches all of them; the first one says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        fit: Fit | None = broadcast(None)
        if fit is None:
            break
        try:
            with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
                _fit(fit)
        except Exception:
            time.sleep(_GRACE_S)
            raise
    leave_ranks()


def _fit(fit: Fit) -> Retriever:
    from toolbank.retrievers import answering_for, create_retriever, load_retriever
    from toolbank.retrievers.base import FitContext

    folder = RunFolder(fit.run)
    retriever = create_retriever(fit.config)
    context = FitContext(
        seed=fit.seed,
        checkpoints=fit.checkpoints,
        fitted={
            name: load_retriever(folder.models / name) for name in fit.config.needs
        },
        logs=folder.logs / fit.config.label,
        planned=fit.planned,
    )
    bank = load_labelled(folder, fit.labels)
    with answering_for(fit.config, "be fitted"):
        retriever.fit(bank, context)
    return retriever
