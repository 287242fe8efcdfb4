"""Timing ten steps of trainings, before a run does all of them."""

from __future__ import annotations

from collections.abc import Sequence

from toolbank.bank.bank import Bank
from toolbank.encoders.location import locate
from toolbank.encoders.model import find_model
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.recipe import Recipe
from toolbank.run.trainings import plan_trainings
from toolbank.system.terminal import print_message
from toolbank.training.callbacks import STEPS
from toolbank.training.config import PlannedTraining
from toolbank.training.ranks import world_size
from toolbank.training.rates import read_rates

# A fold may have half of them, and a query may be in no row.
_SPARE = 3


def measure_trainings(recipe: Recipe, todo: Sequence[str], bank: Bank) -> None:
    """Do ten steps of each training that this machine has not done yet, and keep the rates.

    Retrievers are fitted on as many of the train queries as that takes, and thrown away. Encoders
    that aren't here are downloaded.

    Raises:
        InputError: one can't be fitted, or an encoder can't be had.
    """
    for config in recipe.retrievers:
        if config.trainings and f"retrievers/{config.label}" in todo:
            for encoder in config.encoders:
                find_model(locate(encoder))
    planned = plan_trainings(recipe, todo, bank)
    unknown = {each.title for each in planned if not read_rates(each)}
    by_label = {config.label: config for config in recipe.retrievers}
    wanted: dict[str, RetrieverConfig] = {}
    for config in recipe.retrievers:
        own = {each.title for each in config.plan_trainings(bank, recipe.seed)}
        if f"retrievers/{config.label}" in todo and own & unknown:
            _add_with_needs(config, by_label, wanted)
    small = _shorten(bank, planned)
    fitted: dict[str, Retriever] = {}
    for label, config in wanted.items():
        print_message(f"timing {STEPS} steps of {label}")
        context = FitContext(
            seed=recipe.seed,
            fitted=dict(fitted),
            planned=tuple(planned),
            most_steps=STEPS,
        )
        fitted[label] = create_retriever(config)
        fitted[label].fit(small, context)


def _add_with_needs(
    config: RetrieverConfig,
    by_label: dict[str, RetrieverConfig],
    wanted: dict[str, RetrieverConfig],
) -> None:
    for label in config.needs:
        _add_with_needs(by_label[label], by_label, wanted)
    wanted[config.label] = config


def _shorten(bank: Bank, planned: Sequence[PlannedTraining]) -> Bank:
    """The tools, and train queries for ten steps; none to validate on."""
    most = max(
        each.training.batch_size * each.training.accumulation for each in planned
    )
    queries = bank.train_queries[: _SPARE * STEPS * most * world_size()]
    return Bank(bank.tools, queries, bank.info)
