"""What a run will read of a dataset, and ask of a model when it searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolbank.bank.bank import Bank
from toolbank.bank.split import assign_splits
from toolbank.commands.plan.calls import format_paragraph
from toolbank.generate.loop import most_queries
from toolbank.loaders.labelled import read_labelled
from toolbank.recipe import Recipe
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


def describe_subtasks(
    recipe: Recipe, folder: RunFolder, bank_changes: bool, n_asks: int
) -> Iterator[str]:
    """At most how many requests retrievers will ask a model about, `n_asks` asks among them.

    Raises:
        InputError: the dataset or a labelled file can't be read.
    """
    asking = {config.label: config.asks for config in recipe.retrievers if config.asks}
    if not asking:
        return
    splits = _count_queries(recipe, folder, bank_changes) + Counter(train=n_asks)
    files = sum(len(read_labelled(path).queries) for path in recipe.evaluate.on)
    for label, asked in asking.items():
        built_on = any(label in other.needs for other in recipe.retrievers)
        used = _SPLITS if built_on else _SPLITS[1:]
        most = sum(splits[name] for name in used) + files
        splits_used = " and ".join((", ".join(used[:-1]), used[-1]))
        labelled = ", and those of evaluate.on" if files else ""
        yield (
            f"{label}: at most {count(most, 'request')} to "
            f"{asked.model or asked.engine}: one for each query of {splits_used}{labelled}. "
            "What was answered before is not asked again."
        )


def _count_queries(
    recipe: Recipe, folder: RunFolder, bank_changes: bool
) -> Counter[str | None]:
    if not bank_changes:
        return Counter(query.split for query in Bank.load(folder.bank).queries)
    if recipe.dataset is not None:
        return Counter(read_split(recipe).splits)
    most = most_queries(recipe.generate) or 0
    return Counter(assign_splits(most, recipe.split, recipe.seed))
