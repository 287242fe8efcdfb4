"""Hits for train queries by retrievers that have not seen them: cross-fitting."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, join
from toolbank.retrievers.stored import floats, integers, load_arrays, save_arrays
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingContext, name_training
from toolbank.training.ranks import broadcast, rank

C = TypeVar("C", bound=TrainingContext)
Search = Callable[[Sequence[str], int], Hits]


def cross_fit(
    label: str,
    fit: Callable[[Bank, C], Search],
    bank: Bank,
    k: int,
    context: C,
    folds: int = 2,
) -> Hits:
    """Search for every train query with a retriever that was fitted without it.

    Train queries are the bank's `train_queries`, asks included. For each fold, `fit` is called with
    a bank that lacks the fold's queries, and the returned search is used for them. Validation
    queries are in every bank. `label` is for messages.

    A fold's hits, and the checkpoints of its fit, are kept in `context.checkpoints`, so an
    interrupted fit resumes.

    Returns:
        Indices and scores in the order of the bank's train queries, [n_train, min(k, n_tools)].

    Raises:
        InputError: it cannot be fitted without one of the folds.
    """
    k = min(k, len(bank.tools))
    train = bank.train_queries
    held_out = assign_folds([query.query for query in train], folds, context.seed)
    parts = []
    for number, rows in enumerate(held_out):
        fold = replace(
            context.within(f"fold-{number}"),
            of=name_part(number, len(held_out), context.of),
        )
        try:
            parts.append(_search_fold(fit, bank, rows, k, fold))
        except InputError as error:
            raise InputError(
                f"{label}, fitted without part {number + 1} of {len(held_out)} of the "
                f"train queries for a second stage that learns from its hits: {error} If it can "
                "be fitted on all of them, they are too few for a second stage: add train "
                "queries, or remove the second stage."
            ) from error
    if not parts:
        return join([], k)
    back = np.argsort(np.concatenate(held_out))
    indices, scores = join(parts, k)
    return indices[back], scores[back]


def assign_folds(texts: list[str], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Assign texts to folds, and return their positions; equal texts share a fold.

    No fold is empty, so there are at most as many folds as distinct texts.
    """
    distinct = sorted(set(texts))
    Random(f"{seed}:folds").shuffle(distinct)
    fold_of = {text: number % folds for number, text in enumerate(distinct)}
    numbers = np.array([fold_of[text] for text in texts], dtype=np.int64)
    return [np.flatnonzero(numbers == n) for n in range(min(folds, len(distinct)))]


def name_part(number: int, parts: int, of: str) -> str:
    """Name the fit without a part; `of` names the fit that it is for."""
    return name_training(f"held-out part {number + 1} of {parts}", of)


def _search_fold(
    fit: Callable[[Bank, C], Search],
    bank: Bank,
    rows: NDArray[np.int64],
    k: int,
    context: C,
) -> Hits:
    place = context.checkpoints
    kept = place and place.with_name(f"{place.name}-hits")
    shape = (len(rows), k)
    if hits := broadcast(
        _read_hits(kept, shape, len(bank.tools)) if rank() == 0 else None
    ):
        return hits
    asked = [bank.train_queries[row].query for row in rows]
    search = fit(bank.without_train_queries(rows), context)
    # One process asks: a model that splits requests is paid for.
    hits = broadcast(search(asked, k) if rank() == 0 else None)
    assert hits is not None
    if kept and place and rank() == 0:
        scores = np.where(hits[0] < 0, np.float32(0), hits[1])
        save_arrays(kept, {"indices": hits[0], "scores": scores})
        shutil.rmtree(place, ignore_errors=True)
    return hits


def _read_hits(
    folder: Path | None, shape: tuple[int, int], n_tools: int
) -> Hits | None:
    if folder is None:
        return None
    declared = {
        "indices": integers(*shape, low=-1, high=n_tools),
        "scores": floats(*shape),
    }
    try:
        arrays = load_arrays(folder, declared, {})
    except InputError:
        return None
    indices = arrays["indices"]
    return indices, np.where(indices < 0, np.float32(-np.inf), arrays["scores"])
