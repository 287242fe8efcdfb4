"""The stage that fits a retriever, by this process alone or with others that torchrun started.

The first process runs all stages; the others wait to be told of a fit, and take part in it, so
that a training in it is shared out. What they make is thrown away: the weights are the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.config.shape import shape
from toolbank.run.folder import RunFolder, hash_tree, stage_key
from toolbank.run.stage import (
    Outcome,
    bank_hashes,
    files_read,
)
from toolbank.system.version import __version__
from toolbank.training.ranks import (
    broadcast,
    is_joined,
    join_ranks,
    leave_ranks,
    world_size,
)

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.retrievers.method import RetrieverConfig
    from toolbank.retrievers.protocol import Retriever

# How long another process that failed leaves it to the first one to say why.
_GRACE_S = 5.0


def fit_depends(
    config: RetrieverConfig, recipe: Recipe, folder: RunFolder
) -> dict[str, Any]:
    """All that a fitted retriever follows from."""
    from toolbank.encoders.places import encoder_identity

    return {
        "bank": bank_hashes(folder),
        "config": shape(config),
        "encoders": [encoder_identity(encoder) for encoder in config.encoders],
        "needs": {name: hash_tree(folder.models / name) for name in config.needs},
        "files": files_read(config, recipe),
        "seed": recipe.seed,
        "toolbank": __version__,
    }


def fit_retriever(
    config: RetrieverConfig, recipe: Recipe, folder: RunFolder
) -> Outcome:
    """Fit a retriever on the run's bank, and save it.

    Its checkpoints are in a folder of the retriever's label and of what it follows from, and go
    when it is saved; those of the label that are of an earlier recipe or bank go before.
    """
    key = stage_key(f"retrievers/{config.label}", fit_depends(config, recipe, folder))
    # The steps of an epoch depend on how many share them.
    part = f"-{world_size()}" if world_size() > 1 else ""
    kept = folder.checkpoints / config.label
    checkpoints = kept / f"{key[:16]}{part}"
    for path in kept.glob("*"):
        if path != checkpoints:
            shutil.rmtree(path, ignore_errors=True)
    job = _Job(config, folder.path.resolve(), recipe.seed, checkpoints.resolve())
    broadcast(job)
    try:
        retriever = _fit(job)
    except BaseException:
        # The others may be anywhere in the fit; they end when this process does.
        leave_ranks()
        raise
    target = folder.models / config.label
    folder.models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.models, prefix=".") as name:
        made = Path(name) / config.label
        retriever.save(made)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    shutil.rmtree(kept, ignore_errors=True)
    with suppress(OSError):
        # It stays where others are not done.
        folder.checkpoints.rmdir()
    return Outcome(
        "fitted", tuple(path for path in target.rglob("*") if path.is_file())
    )


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
    while True:
        job: _Job | None = broadcast(None)
        if job is None:
            break
        try:
            with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
                _fit(job)
        except Exception:
            time.sleep(_GRACE_S)
            raise
    leave_ranks()


@dataclass(frozen=True)
class _Job:
    """A fit that all processes are told of."""

    config: RetrieverConfig
    run: Path
    seed: int
    checkpoints: Path


def _fit(job: _Job) -> Retriever:
    from toolbank.retrievers import create_retriever, load_retriever
    from toolbank.retrievers.protocol import FitContext

    folder = RunFolder(job.run)
    retriever = create_retriever(job.config)
    retriever.fit(
        Bank.load(folder.bank),
        FitContext(
            seed=job.seed,
            checkpoints=job.checkpoints,
            fitted={
                name: load_retriever(folder.models / name) for name in job.config.needs
            },
            logs=folder.logs / job.config.label,
        ),
    )
    return retriever
