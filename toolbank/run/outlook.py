"""What a run will have when it comes to its stages, as far as it is known before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, Tool, group_siblings
from toolbank.bank.split import Catalogue, split_queries, thin_train
from toolbank.requests.missing.groups import group_tools
from toolbank.requests.write.config import fit_to_tools
from toolbank.requests.write.write_step import most_queries
from toolbank.run.catalogue import read_catalogue
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe


@dataclass(frozen=True)
class Outlook:
    """The bank that there will be, for stages to say what they will do.

    `todo` names the stages to be run. `read` gives the bank of the dataset, or else the tools of
    the sources with what is said of them; it is called once, and only where that is needed.
    `versions` are the tools by version where they are not those of the folder.
    """

    recipe: Recipe
    folder: RunFolder
    todo: Collection[str]
    read: Callable[[], tuple[Bank, Sequence[str]]]
    versions: Catalogue | None = None

    @property
    def given(self) -> Bank:
        """The dataset, or a bank of the tools alone."""
        return self._read[0]

    @property
    def notes(self) -> Sequence[str]:
        """What is said of the tools."""
        return self._read[1]

    @property
    def bank_changes(self) -> bool:
        """Whether the tools and queries are still to be made."""
        return "dataset" in self.todo or "generate" in self.todo

    @cached_property
    def catalogue(self) -> Catalogue:
        """The tools, with the versions before them."""
        if self.versions is not None:
            return self.versions
        if self.folder.catalogue.is_dir():
            kept = read_catalogue(self.folder)
            if kept.tools == self.given.tools:
                return kept
        return Catalogue(self.given.tools)

    @property
    def most_queries(self) -> int | None:
        """How many queries there will be at most; None where that is not known."""
        if self.recipe.dataset is not None:
            return len(self.given.queries)
        return most_queries(self.recipe.generate)

    @property
    def most_missing(self) -> int:
        """How many missing-tool queries there will be at most."""
        config = self.recipe.missing
        if config is None:
            return len(self.given.missing)
        groups = group_tools(self.catalogue.tools)
        return len(groups[: config.groups]) * config.per_group

    @cached_property
    def bank(self) -> Bank:
        """The bank that retrievers will be fitted on, or a placeholder of its size.

        The placeholder's queries have no meaningful text. Each uses the median number of tools that
        the recipe asks for, each tool in turn. Asks that are still to be written are placeholders, too.

        Raises:
            InputError: a file can't be read.
        """
        if not self.bank_changes:
            bank = Bank.load(self.folder.bank)
        else:
            bank = self.given if self.recipe.dataset is not None else self._shape_bank()
        return expect_asks(self.recipe, bank, to_write="asks" in self.todo)

    @cached_property
    def _read(self) -> tuple[Bank, Sequence[str]]:
        return self.read()

    def _shape_bank(self) -> Bank:
        recipe, tools = self.recipe, self.given.tools
        names = [tool.name for tool in tools]
        withheld = Catalogue(tools).draw_withheld(recipe.split, recipe.seed)
        config = fit_to_tools(recipe.generate, tools)
        used = (config.fewest_tools + config.most_tools) // 2
        in_turn = cycle(names)
        queries = [
            Query(id=f"{n}", query=f"{n}", tools=tuple(islice(in_turn, used)))
            for n in range(most_queries(config) or 0)
        ]
        split = split_queries(queries, recipe.split, recipe.seed, withheld)
        kept, _ = thin_train(list(split), recipe.split, recipe.seed)
        return Bank(tools, tuple(kept), {"ordered": True})


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
        for group in group_siblings(find_asked(recipe, Catalogue(bank.tools)))
        for tool in group
        for key, kind in recipe.asks.keys.items()
    )
    return replace(bank, asks=asks)


def find_asked(recipe: Recipe, catalogue: Catalogue) -> list[Tool]:
    """All tools but those that are withheld."""
    withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
    return [tool for tool in catalogue.tools if tool.name not in withheld]
