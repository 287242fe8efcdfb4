"""The trainings of a fit, in their order, before it is made: its own and the held-out ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolbank.bank.bank import Bank
from toolbank.retrievers.crossfit import assign_folds, name_part
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.training.config import PlannedTraining, name_training


def plan_fits(
    configs: Sequence[RetrieverConfig],
    others: Sequence[RetrieverConfig],
    bank: Bank,
    seed: int,
) -> Iterator[PlannedTraining]:
    """The trainings of some of a recipe's retrievers, all of which are `others`.

    Raises:
        InputError: one of them can't be trained on this bank.
    """
    by_label = {config.label: config for config in others}
    for config in configs:
        yield from plan_fit(config, by_label, bank, seed)


def plan_fit(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str = "",
) -> Iterator[PlannedTraining]:
    """The trainings of a retriever's fit on a bank.

    `others` has the retrievers that it builds on, and those that they build on, by label; where
    one is fitted anew for it, without a part of the train queries, that is among them. `of` says
    for which fit this one is.

    Raises:
        InputError: it can't be trained on this bank.
    """
    if config.learns_from:
        asks = f"for {name_training(config.label, of)}"
        first = others[config.learns_from]
        yield from _plan_held_out(first, others, bank, seed, asks)
    for planned in config.plan_trainings(bank, seed):
        yield planned.within(of)


def _plan_held_out(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str,
) -> Iterator[PlannedTraining]:
    if not _trains(config, others):
        return
    texts = [query.query for query in bank.train_queries]
    parts = assign_folds(texts, config.folds, seed)
    for number, rows in enumerate(parts):
        rest = bank.without_train_queries(rows)
        part = name_part(number, len(parts), of)
        yield from _plan_anew(config, others, rest, seed, part)


def _plan_anew(
    config: RetrieverConfig,
    others: Mapping[str, RetrieverConfig],
    bank: Bank,
    seed: int,
    of: str,
) -> Iterator[PlannedTraining]:
    for label in config.needs:
        yield from _plan_anew(others[label], others, bank, seed, of)
    yield from plan_fit(config, others, bank, seed, of)


def _trains(config: RetrieverConfig, others: Mapping[str, RetrieverConfig]) -> bool:
    return bool(config.trainings) or any(
        _trains(others[label], others) for label in config.needs
    )
