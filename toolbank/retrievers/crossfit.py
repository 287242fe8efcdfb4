"""Hits for train queries by retrievers that have not seen them: cross-fitting."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.ranking.topk import Hits, join
from toolbank.retrievers import create_retriever
from toolbank.retrievers.protocol import FitContext, Retriever
from toolbank.retrievers.store import load_arrays, save_arrays
from toolbank.system.errors import InputError
from toolbank.training.ranks import broadcast, rank

if TYPE_CHECKING:
    from toolbank.retrievers.method import RetrieverConfig


def cross_fit(
    config: RetrieverConfig, bank: Bank, k: int, context: FitContext, folds: int = 2
) -> Hits:
    """Hits of every train query by a retriever of `config` that was fitted without it.

    For each fold a retriever is fitted on the train queries outside it, and searched for those
    in it. The retrievers that it builds on, of which `context.fitted` has those fitted on the
    whole bank, are fitted anew as well: they have seen the fold's queries. Those of split
    "validation" are in every fit.

    A fold's hits are kept in `context.checkpoints`, and so are the checkpoints of its fit, so
    that a fit that was killed goes on.

    Returns:
        Indices and scores in the order of the bank's train queries, [n_train, min(k, n_tools)].

    Raises:
        InputError: it can't be fitted without one of the folds.
    """
    k = min(k, len(bank.tools))
    train = bank.split("train")
    held_out = assign_folds([query.query for query in train], folds, context.seed)
    parts = []
    for number, rows in enumerate(held_out):
        fold = context.within(f"fold-{number}")
        try:
            parts.append(_search_fold(config, bank, rows, k, fold))
        except InputError as error:
            raise InputError(
                f"{config.label}, fitted without part {number + 1} of {len(held_out)} of the "
                f"train queries for a second stage that learns from its hits: {error} If it can "
                "be fitted on all of them, they are too few for a second stage: add train "
                "queries, or leave the second stage out."
            ) from error
    if not parts:
        return join([], k)
    back = np.argsort(np.concatenate(held_out))
    indices, scores = join(parts, k)
    return indices[back], scores[back]


def assign_folds(texts: list[str], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """The positions of the texts in each fold; a text that comes again is in the same one.

    As many folds as there are texts, where those are fewer; none of them is empty.
    """
    distinct = sorted(set(texts))
    Random(f"{seed}:folds").shuffle(distinct)
    fold_of = {text: number % folds for number, text in enumerate(distinct)}
    numbers = np.array([fold_of[text] for text in texts], dtype=np.int64)
    return [np.flatnonzero(numbers == n) for n in range(min(folds, len(distinct)))]


def _search_fold(
    config: RetrieverConfig,
    bank: Bank,
    rows: NDArray[np.int64],
    k: int,
    context: FitContext,
) -> Hits:
    place = context.checkpoints
    kept = place and place.with_name(f"{place.name}-hits")
    if hits := broadcast(_read_hits(kept, (len(rows), k)) if rank() == 0 else None):
        return hits
    train = bank.split("train")
    asked = [train[row] for row in rows]
    out = {id(query) for query in asked}
    rest = Bank(bank.tools, tuple(q for q in bank.queries if id(q) not in out))
    retriever = _fit_anew(config, context.fitted, rest, context)
    # One process asks: a model that splits requests is paid for.
    hits = broadcast(
        retriever.search([query.query for query in asked], k) if rank() == 0 else None
    )
    assert hits is not None
    if kept and place and rank() == 0:
        save_arrays(kept, {"indices": hits[0], "scores": hits[1]})
        shutil.rmtree(place, ignore_errors=True)
    return hits


def _fit_anew(
    config: RetrieverConfig,
    fitted: Mapping[str, Retriever],
    bank: Bank,
    context: FitContext,
) -> Retriever:
    """Fit a retriever, and first those that it builds on, on this bank alone."""
    anew = {
        label: _fit_anew(
            fitted[label].config,
            built_on(fitted[label]),
            bank,
            context.within(label),
        )
        for label in config.needs
    }
    retriever = create_retriever(config)
    retriever.fit(bank, replace(context, fitted=anew))
    return retriever


def built_on(retriever: Retriever) -> Mapping[str, Retriever]:
    """The retrievers that one builds on, by their labels; it gives them as `built_on`."""
    found: Mapping[str, Retriever] = getattr(retriever, "built_on", {})
    return found


def _read_hits(folder: Path | None, shape: tuple[int, int]) -> Hits | None:
    if folder is None:
        return None
    try:
        arrays = load_arrays(folder, {"indices": shape, "scores": shape})
    except InputError:
        return None
    return arrays["indices"].astype(np.int64), arrays["scores"].astype(np.float32)
