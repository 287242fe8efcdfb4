"""The trainings of a run: steps, and where this machine has done their like, time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.bank.split import draw_withheld, split_queries
from toolbank.requests.write.config import fit_to_tools
from toolbank.requests.write.generate import most_queries
from toolbank.retrievers.kind import plan_fits
from toolbank.run.folder import RunFolder
from toolbank.run.forecast import expect_asks
from toolbank.run.recipe import Recipe
from toolbank.run.stages.dataset import read_split
from toolbank.run.stages.fit import FitStage
from toolbank.system.numbers import count
from toolbank.training.config import PlannedTraining
from toolbank.training.rates import add_up, describe_machine, read_rates

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.retrievers.kind import RetrieverConfig


def describe_trainings(
    planned: Sequence[PlannedTraining], *, exact: bool, begun: Sequence[str] = ()
) -> Iterator[str]:
    """A line for each training, those of held-out fits among them, and one for all of them.

    `exact` where the bank is there: its steps are then those that will be done. `begun` names
    the retrievers of which an earlier run has kept a part.
    """
    if not planned:
        return
    rated = [(each, read_rates(each)) for each in planned]
    yield f"Trainings, here: {describe_machine()}"
    rows, about = [], "" if exact else "about "
    for each, rates in rated:
        counted = f"{about}{each.steps:,}" if each.steps else "?"
        memory = max((rate.memory or 0 for rate in rates), default=0)
        rows.append(
            (
                each.title,
                counted,
                add_up([(each, rates)]).describe(),
                f"{memory / 1e9:.1f} GB" if memory else "",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, counted, time, memory_used in rows:
        yield (
            f"  {title:<{widths[0]}}  {counted:>{widths[1]}} steps  {time:<{widths[2]}}  "
            f"{memory_used}"
        ).rstrip()
    total = add_up(rated)
    most = "at most " if begun else ""
    steps = count(sum(each.steps or 0 for each in planned), "step")
    in_all = f"  In all {most}{about}{steps}"
    if len(total.unknown) < len(planned):
        in_all += f": {total.describe()}"
        in_all += ", and what is unknown" if total.unknown else ""
    yield f"{in_all}."
    if begun:
        yield f"  An earlier run has kept a part of {', '.join(begun)}, which is not done again."
    if total.days:
        told = ", ".join(map(str, total.days))
        yield f"  That is for texts like those timed on {told}; longer ones take longer."
    if total.unknown:
        yield (
            "  Unknown is what this machine has not trained yet: --measure times ten steps of each."
        )


def plan_trainings(
    recipe: Recipe, todo: Sequence[str], bank: Bank
) -> list[PlannedTraining]:
    """The trainings of the retrievers that are to be fitted on a bank, in their order.

    Raises:
        InputError: one of them can't be trained on it.
    """
    configs = [
        config for config in recipe.retrievers if f"retrievers/{config.label}" in todo
    ]
    return list(plan_fits(configs, recipe.retrievers, bank, recipe.seed))


def find_begun(recipe: Recipe, todo: Sequence[str], folder: RunFolder) -> list[str]:
    """The retrievers to be fitted whose trainings an earlier run has kept something of.

    That is by the same settings, on the bank and retrievers that are there and stay.
    """
    return [
        stage.config.label
        for stage in FitStage.of(recipe, folder)
        if stage.name in todo
        and not set(stage.needs) & set(todo)
        and any(stage.checkpoints.rglob("*.safetensors"))
    ]


def trains(configs: Sequence[RetrieverConfig], todo: Sequence[str]) -> bool:
    """Whether any retriever that is to be fitted trains weights."""
    return any(
        config.trainings for config in configs if f"retrievers/{config.label}" in todo
    )


def read_bank(
    recipe: Recipe, folder: RunFolder, tools: Sequence[Tool], todo: Sequence[str]
) -> Bank:
    """The bank that retrievers will be fitted on, or one of its shape, as `_read_bank` gives it.

    Asks that are still to be written say nothing either.

    Raises:
        InputError: a file can't be read.
    """
    bank_changes = "dataset" in todo or "generate" in todo
    bank = _read_bank(recipe, folder, tools, bank_changes=bank_changes)
    return expect_asks(recipe, bank, to_write="asks" in todo)


def _read_bank(
    recipe: Recipe, folder: RunFolder, tools: Sequence[Tool], *, bank_changes: bool
) -> Bank:
    """The bank that retrievers will be fitted on, or before it is generated one of its shape.

    Its queries then use as many tools as are asked for in the middle, each tool in turn, and say
    nothing. `tools` are those that it is generated over.

    Raises:
        InputError: a file can't be read.
    """
    if not bank_changes:
        return Bank.load(folder.bank)
    if recipe.dataset is not None:
        read = read_split(recipe)
        info = {"ordered": recipe.dataset.ordered}
        return Bank(tuple(read.tools), tuple(read.queries), info, tuple(read.asks))
    names = [tool.name for tool in tools]
    withheld = draw_withheld(names, recipe.split, recipe.seed)
    config = fit_to_tools(recipe.generate, tools)
    used = (config.fewest_tools + config.most_tools) // 2
    in_turn = cycle(names)
    queries = [
        Query(id=f"{n}", query=f"{n}", tools=tuple(islice(in_turn, used)))
        for n in range(most_queries(config) or 0)
    ]
    split = split_queries(queries, recipe.split, recipe.seed, withheld)
    return Bank(tuple(tools), tuple(split), {"ordered": True})
