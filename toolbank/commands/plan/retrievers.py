"""What a run will read of a dataset, and ask of a model when it searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.bank.split import assign_splits
from toolbank.commands.plan.calls import describe_forecast, format_paragraph
from toolbank.commands.plan.forecast import forecast_searches
from toolbank.datasets.jsonl import read_labelled
from toolbank.recipe import Recipe
from toolbank.requests.write.loop import most_queries
from toolbank.run.advice import advise_on_size
from toolbank.run.folder import RunFolder
from toolbank.run.stages.dataset import read_split
from toolbank.system.numbers import count

_SPLITS = ("train", "validation", "test")


def describe_dataset(recipe: Recipe) -> Iterator[str]:
    """How many tools and queries a dataset has, what of it is left out, and its splits.

    Raises:
        InputError: it can't be read.
    """
    read = read_split(recipe)
    splits = ", ".join(f"{read.splits[name]:,} {name}" for name in _SPLITS)
    yield f"Dataset: {read.describe()}: {splits}"
    yield from (f"  {line}" for line in read.describe_left_out())
    for line in advise_on_size(len(read.tools), read.splits["test"], recipe.evaluate):
        yield from format_paragraph("size", line)


def describe_searches(
    recipe: Recipe, folder: RunFolder, bank_changes: bool, bank: Bank
) -> Iterator[str]:
    """What retrievers will ask a model at most: calls, tokens, cost and time.

    `bank` has the tools and asks that there will be.

    Raises:
        InputError: the dataset, a labelled file or a prompt can't be read.
        ToolbankError: a journal is damaged.
    """
    queries = _read_queries(recipe, folder, bank_changes)
    splits = Counter[str | None](query.split for query in queries)
    if bank_changes and recipe.dataset is None:
        most = most_queries(recipe.generate) or 0
        splits = Counter(assign_splits(most, recipe.split, recipe.seed))
    splits["train"] += len(bank.asked)
    files = [q for path in recipe.evaluate.on for q in read_labelled(path).queries]
    held_out = [query for query in queries if query.split in _SPLITS[1:]]
    texts = [query.query for query in (*held_out, *files)]
    for config in recipe.retrievers:
        asked = config.asks
        if asked is None:
            continue
        built_on = any(config.label in other.needs for other in recipe.retrievers)
        used = _SPLITS if built_on and config.asks_of_train else _SPLITS[1:]
        most = sum(splits[name] for name in used) + len(files)
        splits_used = " and ".join((", ".join(used[:-1]), used[-1]))
        labelled = ", and those of evaluate.on" if files else ""
        yield (
            f"{config.label}: at most {count(most, 'request')} to "
            f"{asked.model or asked.engine}: one for each query of {splits_used}{labelled}. "
            "What was answered before is not asked again."
        )
        forecast = forecast_searches(recipe, config, asked, bank.tools, texts, most)
        yield from describe_forecast(forecast, asked)


def _read_queries(
    recipe: Recipe, folder: RunFolder, bank_changes: bool
) -> Sequence[Query]:
    """The queries of the bank that there will be, as far as they are known."""
    if not bank_changes:
        return Bank.load(folder.bank).queries
    return read_split(recipe).queries if recipe.dataset is not None else ()
