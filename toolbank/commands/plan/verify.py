"""What the verification of a run's labels will ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolbank.commands.plan.calls import describe_forecast, format_paragraph
from toolbank.commands.plan.forecast import forecast_verify
from toolbank.requests.verify.config import find_verifier
from toolbank.requests.write.loop import most_queries
from toolbank.run.stages.dataset import read_split
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def describe_verify(
    recipe: Recipe, folder: RunFolder, tools: Sequence[Tool]
) -> Iterator[str]:
    """How many calls it takes at most, and their tokens, cost and time.

    Raises:
        InputError: the prompt can't be used, or the dataset can't be read.
        ToolbankError: the journal is damaged.
    """
    config = recipe.verify
    if config is None:
        return
    kind = find_verifier(config)
    if kind is None or not kind.asks_model:
        yield f"Verification: by {config.engine}. No model is called."
        return
    queries = (
        most_queries(recipe.generate)
        if recipe.dataset is None
        else len(read_split(recipe).queries)
    )
    if queries is None:
        yield f"Verification: one call a query, by {kind.describe(config)}"
        return
    forecast = forecast_verify(recipe, config, folder, tools, queries)
    asked = count(queries, "query", "queries")
    yield f"Verification: the labels of {asked}, by {kind.describe(config)}"
    yield from format_paragraph(
        "calls",
        f"at most {forecast.calls(most=True):,}: one a query, with some "
        f"{2 * config.candidates} tools in its prompt",
    )
    yield from describe_forecast(forecast, config)
