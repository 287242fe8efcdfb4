"""Which of a recipe's retrievers can be fitted where its dataset has no train queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from toolbank.datasets.kind import SPLIT_NAMES
from toolbank.retrievers import RETRIEVERS
from toolbank.run.stages.dataset import DatasetStage, SplitDataset, read_split
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe, RecipeFile


def suit_dataset(file: RecipeFile, folder: RunFolder) -> RecipeFile:
    """The recipe with those of its retrievers that its dataset is enough for.

    Without train queries, those that need some go where nobody listed them: the baselines that
    were added, and the default list. Asks are to learn from, too: with them, all stay.

    Raises:
        InputError: one that is listed needs train queries and there are none, or the dataset can't
            be read.
    """
    recipe = file.recipe
    unfit = _find_unfit(recipe.retrievers)
    if recipe.dataset is None or recipe.asks is not None or not unfit:
        return file
    if DatasetStage(recipe, folder).has_train_queries():
        return file
    added = len(recipe.retrievers) - file.listed
    listed = [unfit[c.label] for c in recipe.retrievers[added:] if c.label in unfit]
    if listed:
        raise _refuse(file, listed, read_split(recipe))
    kept = tuple(c for c in recipe.retrievers if c.label not in unfit)
    # No reader of the run's recipe is to add again what went.
    suited = recipe.model_copy(update={"retrievers": kept, "baselines": False})
    return dataclasses.replace(file, recipe=suited)


def note_left_out(before: Recipe, after: Recipe) -> list[str]:
    """That retrievers of the one recipe are not in the other, for want of train queries."""
    kept = {config.label for config in after.retrievers}
    gone = [one.label for one in before.retrievers if one.label not in kept]
    if not gone:
        return []
    return [f"not fitted, since the dataset has no train queries: {', '.join(gone)}"]


def _find_unfit(configs: Sequence[RetrieverConfig]) -> dict[str, str]:
    """What can't be fitted without train queries: labels, and what people are told of each."""
    unfit: dict[str, str] = {}
    for config in configs:
        first = next((label for label in config.needs if label in unfit), "")
        if config.needs_queries:
            unfit[config.label] = config.label
        elif first:
            unfit[config.label] = f"{config.label} (over {first})"
    return unfit


def _refuse(file: RecipeFile, listed: Sequence[str], found: SplitDataset) -> InputError:
    alone, over = _find_types()
    splits = ", ".join(
        f"{found.splits[name]:,} {name}" for name in ("validation", "test")
    )
    return InputError(
        "\n".join(
            (
                f"{file.path}: retrievers: the dataset has no train queries ({splits}), and these "
                f"can't be fitted without: {', '.join(listed)}. Leave them out. By their defaults "
                f"these need none: {', '.join(alone)}; over them, {', '.join(over)}.",
                *(f"  {line}" for line in found.describe_left_out()),
                "To train, name a split of the dataset train, leave the splits out to have them "
                f"drawn, or have asks written for its tools (`asks`). {SPLIT_NAMES}",
            )
        )
    )


def _find_types() -> tuple[list[str], list[str]]:
    """The types that need no train queries: those that stand alone, and those that build on one."""
    alone: list[str] = []
    over: list[str] = []
    for name in RETRIEVERS.names:
        try:
            config = RETRIEVERS.load(name).config(type=name)
        except (InputError, ValidationError):
            # It can't be had here, or not without settings that nobody has given.
            continue
        if not config.needs_queries:
            (over if config.needs else alone).append(name)
    return alone, over
