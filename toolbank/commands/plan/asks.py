"""What a run will ask for each tool by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from toolbank.bank.catalogue import Catalogue
from toolbank.bank.records import Ask
from toolbank.bank.twins import group_siblings
from toolbank.commands.plan.calls import describe_forecast, format_paragraph
from toolbank.commands.plan.forecast import forecast_asks
from toolbank.requests.asks.writers import find_ask_writer
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.bank.records import Tool
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def describe_asks(
    recipe: Recipe, folder: RunFolder, catalogue: Catalogue
) -> Iterator[str]:
    """How many calls it takes, and their tokens, cost and time.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    config = recipe.asks
    if config is None:
        return
    writer = find_ask_writer(config)
    asked = _asked(recipe, catalogue)
    each = f"{config.per_tool} for each of {count(len(asked), 'tool')}"
    if not writer.asks_model:
        yield f"Asks: at most {each}, by {config.engine}. No model is called."
        return
    groups = group_siblings(asked)
    forecast = forecast_asks(recipe, config, catalogue, folder)
    yield f"Asks: {each}, by {writer.describe(config)}"
    calls = f"{forecast.calls(most=True):,}, one a tool"
    if len(groups) < len(asked):
        calls += f"; siblings on several classes share one, so that {len(groups):,} do for all"
    yield from format_paragraph("calls", calls)
    yield from describe_forecast(forecast, config)


def expect_asks(recipe: Recipe, bank: Bank, *, to_write: bool) -> Bank:
    """The bank with its asks, or where they are still `to_write`, with some of their number.

    Those of a dataset are its own.
    """
    if recipe.asks is None:
        return bank if recipe.dataset is not None else replace(bank, asks=())
    if not to_write:
        return bank
    asks = tuple(
        Ask(tool=tool.name, kind=kind, ask=f"{group[0].name} {key}")
        for group in group_siblings(_asked(recipe, Catalogue(bank.tools)))
        for tool in group
        for key, kind in recipe.asks.keys.items()
    )
    return replace(bank, asks=asks)


def _asked(recipe: Recipe, catalogue: Catalogue) -> list[Tool]:
    """All tools but those that are withheld."""
    withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
    return [tool for tool in catalogue.tools if tool.name not in withheld]
