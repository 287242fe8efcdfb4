"""Fit retrievers, and load fitted ones with the settings of a recipe."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank, Labels
from toolbank.bank.files import read_column, read_tools
from toolbank.config.base import shape
from toolbank.encoders.config import PrefixedConfig
from toolbank.retrievers import create_retriever, load_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.run.folder import RunFolder
from toolbank.system.extras import naming_extras
from toolbank.training.ranks import broadcast, is_joined, join_ranks, leave_ranks

if TYPE_CHECKING:
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.recipe import Recipe


# How long another process that failed leaves it to the first one to say why.
_GRACE_S = 5.0


@dataclass(frozen=True)
class Fit:
    """A fit that all processes are given: of which retriever, on the bank of which run.

    `labels` are those that it learns from.
    """

    config: RetrieverConfig
    run: Path
    seed: int
    checkpoints: Path
    labels: Labels = "verified"


def load_labelled(folder: RunFolder, labels: Labels) -> Bank:
    """The bank of a run as it is learnt from, by its verified labels or those written first.

    Raises:
        InputError: a file is missing, damaged, or not of this layout.
    """
    if labels == "first":
        return replace(Bank.load(folder.bank, settled=False), labels=())
    return Bank.load(folder.bank).with_labels_applied()


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

    folder = RunFolder(fit.run)
    retriever = create_retriever(fit.config)
    context = FitContext(
        seed=fit.seed,
        checkpoints=fit.checkpoints,
        fitted={
            name: load_retriever(folder.models / name) for name in fit.config.needs
        },
        logs=folder.logs / fit.config.label,
    )
    bank = load_labelled(folder, fit.labels)
    with naming_extras():
        retriever.fit(bank, context)
    return retriever


def load_fitted(recipe: Recipe, folder: RunFolder, label: str) -> Retriever:
    """Load a retriever of a run.

    How a model is reached, and its budget, may have changed since it was fitted: that is no
    reason to fit it again, and counts all the same. It finds the tools that the bank has now, in
    their order: those that came since by their descriptions.

    Raises:
        InputError: a file is missing or damaged.
    """
    retriever = load_retriever(folder.models / label)
    _renew(retriever, {config.label: config for config in recipe.retrievers})
    return _follow(retriever, folder.bank / "tools.parquet")


def _follow(retriever: Retriever, path: Path) -> Retriever:
    """The retriever with the tools of a tools.parquet."""
    names = tuple(read_column(path, "name"))
    known = set(retriever.tools)
    if retriever.tools == names:
        return retriever
    if new := [tool for tool in read_tools(path) if tool.name not in known]:
        retriever = retriever.add_tools(new)
    places = {name: place for place, name in enumerate(retriever.tools)}
    return retriever.pick_tools([places[name] for name in names])


def _renew(retriever: Retriever, configs: Mapping[str, RetrieverConfig]) -> None:
    now = configs.get(retriever.name)
    if now is not None:
        stated = {
            name: value.with_prefixes(dict(getattr(retriever.config, name, ())))
            for name, value in now
            if isinstance(value, PrefixedConfig)
        }
        now = now.model_copy(update=stated)
        if shape(now) == shape(retriever.config):
            retriever.config = now
    for one in retriever.built_on.values():
        _renew(one, configs)
