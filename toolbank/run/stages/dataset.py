"""The stage that takes the bank from a dataset of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import MISSING, Bank, Label, write_labels
from toolbank.bank.files import write_asks, write_queries, write_tools
from toolbank.bank.records import Ask, Query, Tool
from toolbank.bank.split import (
    Catalogue,
    find_held_out_tools,
    format_splits,
    make_units,
    split_dataset,
    thin_train,
)
from toolbank.config.base import shape
from toolbank.config.explain import read_checked
from toolbank.datasets import DATASETS
from toolbank.datasets.kind import SPLIT_NAMES, DatasetKind, DatasetSettings
from toolbank.requests.missing.settle import split_missing
from toolbank.requests.write.near_duplicates import find_across_splits
from toolbank.run.advice import advise_on_size
from toolbank.run.forecast import format_paragraph
from toolbank.run.stage import (
    Outcome,
    Stage,
    depends_on_copies,
    describe_left_out,
    drop_copies,
    has_grades,
    write_bank_info,
)
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe, RecipeFile


class DatasetStage(Stage):
    """Takes the tools and queries of a dataset as the bank, and its asks and labels."""

    kind = "dataset"

    def depends(self) -> dict[str, Any]:
        """The files by content, wherever they lie, and how they are split."""
        config = _config(self.recipe)
        return {
            "dataset": shape(config),
            "files": _hash_files(config),
            "domain": self.recipe.domain_name,
            "split": self.recipe.split.shape(),
            **depends_on_copies(self.recipe),
            "seed": self.recipe.seed,
            "toolbank": __version__,
            # Then `verify` merges them with its grades.
            **({"labels": "merged"} if has_grades(self.recipe, self.folder) else {}),
        }

    def work(self) -> Outcome:
        """Read the dataset, and write the bank."""
        config = _config(self.recipe)
        found = read_split(self.recipe, drops=self.recipe.profile.copies.drop)
        tools, queries, asks, labels = (
            self.folder.bank / f"{name}.parquet"
            for name in ("tools", "queries", "asks", "labels")
        )
        write_tools(tools, found.tools)
        write_queries(queries, found.queries)
        files = [tools, queries]
        if found.asks:
            write_asks(asks, found.asks)
            files.append(asks)
        elif self.recipe.asks is None:
            asks.unlink(missing_ok=True)
        missing = self.folder.bank / MISSING
        if found.missing:
            write_queries(missing, found.missing)
            files.append(missing)
        elif self.recipe.missing is None:
            missing.unlink(missing_ok=True)
        own = self.folder.dataset_labels
        is_merged = has_grades(self.recipe, self.folder)
        for path, is_used in ((labels, not is_merged), (own, is_merged)):
            if found.labels and is_used:
                write_labels(path, found.labels)
                files.append(path)
            elif path == own or is_used:
                path.unlink(missing_ok=True)
        info = write_bank_info(
            self.recipe,
            self.folder,
            files,
            libraries=("polars",),
            origin={
                "dataset": {"type": config.type, "files": _hash_files(config)},
                "ordered": config.ordered,
                "counts": {
                    "tools": len(found.tools),
                    "queries": len(found.queries),
                    "asks": len(found.asks),
                    **({"missing": len(found.missing)} if found.missing else {}),
                },
                "left_out": found.left_out,
                **describe_left_out(copies=found.copies, train_share=found.thinned),
            },
            splits=found.splits,
            withheld=found.withheld,
        )
        size = len(found.tools), found.splits["test"]
        advice = advise_on_size(*size, self.recipe.evaluate)
        problems = (*found.describe_left_out(), *advice)
        return Outcome(found.describe(), (*files, info), problems=problems)

    def files(self) -> tuple[Path, ...]:
        """The dataset's files; refused where one isn't there."""
        config = _config(self.recipe)
        return _find_kind(config).find_files(config)

    def places(self) -> tuple[Path, ...]:
        """The dataset's files, there or not."""
        config = _config(self.recipe)
        return _find_kind(config).files(config)

    def check(self) -> None:
        """Refuse a dataset whose files aren't there."""
        self.files()

    def has_train_queries(self) -> bool:
        """Whether the dataset has queries or asks to train on.

        By the bank where that is made, or else read.

        Raises:
            InputError: it can't be read.
        """
        if not self.is_done:
            found = read_split(self.recipe)
            return bool(found.splits["train"] or found.asks)
        info = read_checked(self.folder.bank / "bank.json", dict[str, Any])
        return bool(info["splits"]["train"] or info["counts"].get("asks"))

    def read_ahead(self) -> None:
        """Read and split the dataset."""
        read_split(self.recipe)

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """How many tools and queries it has, what of it is left out, and its splits."""
        read = read_split(self.recipe)
        splits = Counter(query.split for query in read.queries)
        yield f"Dataset: {read.describe()}: {format_splits(splits)}"
        yield from (f"  {line}" for line in read.describe_left_out())
        size = len(read.tools), read.splits["test"]
        for line in advise_on_size(*size, outlook.recipe.evaluate):
            yield from format_paragraph("size", line)


@dataclass(frozen=True)
class SplitDataset:
    """A dataset whose queries have their splits; `asks` are for none of the tools withheld.

    `labels` are verified ones, which count where the recipe has none made. `splits` counts the queries by split, those that use a tool of `withheld` under None;
    `left_out` says, by reason, how often and of what something was left out, and `straddling` how
    many queries share something with two splits, of which none may. `thinned` are those that
    split.train_share leaves out.
    """

    tools: Sequence[Tool]
    queries: Sequence[Query]
    splits: Counter[Any]
    withheld: frozenset[str]
    left_out: dict[str, Any]
    asks: Sequence[Ask]
    straddling: int = 0
    labels: Sequence[Label] = ()
    copies: int = 0
    missing: Sequence[Query] = ()
    thinned: int = 0

    def describe(self) -> str:
        """How many tools, queries and asks there are."""
        parts = [
            count(len(self.tools), "tool"),
            count(len(self.queries), "query", "queries"),
            *([count(len(self.asks), "ask")] if self.asks else []),
            *([self._count_missing()] if self.missing else []),
        ]
        return ", ".join(parts)

    def _count_missing(self) -> str:
        return f"{count(len(self.missing), 'query', 'queries')} that no tool fits"

    def describe_left_out(self) -> list[str]:
        """A line for each reason for which something was left out."""
        lines = [
            f"left out: {reason} ({found['count']:,})"
            for reason, found in self.left_out.items()
        ]
        if self.copies:
            copied = count(self.copies, "copy", "copies")
            lines.append(f"in no split: {copied} of held-out or other requests")
        if self.thinned:
            lines.append(f"in no split: {self.thinned:,} by split.train_share")
        if self.straddling:
            queries = count(self.straddling, "query", "queries")
            lines.append(f"in no split: {queries} that would straddle two (split.by)")
        if self.withheld:
            lines.append(
                f"withheld: {count(len(self.withheld), 'tool')}; not trained on: "
                f"{count(self.splits[None], 'query that uses', 'queries that use')} one"
            )
        return lines


def read_split(recipe: Recipe, *, drops: bool = False) -> SplitDataset:
    """Read a recipe's dataset, and split it; with `drops`, copies are found and not trained on.

    Raises:
        InputError: a file is missing or broken, withheld tools leave none to train on, or there
            are asks and the recipe has others written.
    """
    config = _config(recipe)
    dataset = _find_kind(config).read(config)
    if dataset.asks and recipe.asks is not None:
        raise InputError(
            f"{config.place}: the dataset has {count(len(dataset.asks), 'ask')} of its own, and the "
            "recipe's `asks` has others written. Leave one of the two out."
        )
    if dataset.missing and recipe.missing is not None:
        raise InputError(
            f"{config.place}: the dataset has {count(len(dataset.missing), 'query', 'queries')} that "
            "no tool fits, and the recipe's `missing` has others generated. Remove one of the two."
        )
    withheld = Catalogue(dataset.tools).draw_withheld(recipe.split, recipe.seed)
    for ask in dataset.asks:
        if ask.tool in withheld:
            dataset.left_out.add("ask: for a tool that is withheld", ask.tool)
    units = make_units(recipe.split.by, dataset.tools)
    queries = split_dataset(dataset.queries, recipe.split, recipe.seed, withheld, units)
    # What a dataset splits itself stays as it was published.
    drawn = [query.split is None for query in dataset.queries]
    alike = [row for row in find_across_splits(queries) if units or drawn[row]]
    for row in alike:
        dataset.left_out.add(
            "query: near-duplicate of one that is held out", queries[row].id
        )
        queries[row] = queries[row].model_copy(update={"split": None})
    asks, copies = list(dataset.asks), 0
    if drops:
        from toolbank.requests.profile.copies import find_dropped

        limits, encoder = recipe.profile.copies, recipe.plain_encoder
        texts = [ask.ask for ask in asks]
        for row in reversed(find_dropped(texts, queries, limits, encoder)):
            dataset.left_out.add("ask: a copy of another request", asks.pop(row).tool)
        queries, copies = drop_copies(recipe, queries)
    queries, thinned = thin_train(queries, recipe.split, recipe.seed)
    splits = Counter(query.split for query in queries)
    splits[None] -= len(alike) + copies + thinned
    held_out = set(withheld)
    if units and recipe.split.by != "set":
        held_out |= find_held_out_tools(queries, dataset.tools, units)
        for ask in dataset.asks:
            if ask.tool in held_out:
                dataset.left_out.add("ask: for a tool that is held out", ask.tool)
    found = SplitDataset(
        dataset.tools,
        queries,
        splits,
        withheld,
        dataset.left_out.describe(),
        [ask for ask in asks if ask.tool not in held_out],
        straddling=0 if withheld else splits[None],
        labels=dataset.labels,
        copies=copies,
        missing=split_missing(dataset.missing, recipe.split, recipe.seed),
        thinned=thinned,
    )
    if withheld and not (splits["train"] or found.asks):
        raise InputError(
            f"split.withhold_tools: of {count(len(queries), 'query', 'queries')} none is left to "
            f"train on ({splits[None]:,} use a withheld tool). Withhold fewer tools, or none."
        )
    if units and splits[None] and not splits["train"]:
        other = "by set" if recipe.split.by == "tool" else "by tool or by set"
        raise InputError(
            f"split.by: {recipe.split.by}: of {count(len(queries), 'query', 'queries')} none is left "
            f"to train on, as nearly all of them have one in common. Split {other}."
        )
    if splits["train"] and not splits["validation"]:
        try:
            recipe.demand_validation()
        except ValueError as error:
            raise InputError(f"{error}.") from error
    return found


def read_dataset(recipe: Recipe) -> Bank:
    """The bank of a recipe's dataset, as `read_split` reads it."""
    read = read_split(recipe)
    info = {"ordered": _config(recipe).ordered}
    bank = Bank(tuple(read.tools), tuple(read.queries), info, tuple(read.asks))
    return replace(bank, missing=tuple(read.missing))


def _config(recipe: Recipe) -> DatasetSettings:
    if recipe.dataset is None:
        raise InputError(f"{recipe.name}: its recipe names no dataset.")
    return recipe.dataset


def _find_kind(config: DatasetSettings) -> DatasetKind[Any]:

    return DATASETS.find(config.type, "dataset.type")


def _hash_files(config: DatasetSettings) -> dict[str, str]:
    hashes = {}
    kind = _find_kind(config)
    for path in kind.find_files(config):
        folder = kind.folder(config)
        inside = path.is_relative_to(folder)
        name = path.relative_to(folder).as_posix() if inside else path.name
        hashes[name] = sha256_file(path)
    return hashes


def fit_to_dataset(file: RecipeFile, folder: RunFolder) -> tuple[RecipeFile, list[str]]:
    """Remove the retrievers that need train queries, if the dataset has none.

    Only the added baselines and those of the default list are removed; the notes name them. Asks
    count as train queries.

    Raises:
        InputError: a listed retriever needs train queries and there are none, or the dataset
            cannot be read.
    """
    recipe = file.recipe
    unfit = _find_unfit(recipe.retrievers)
    if recipe.dataset is None or recipe.asks is not None or not unfit:
        return file, []
    if DatasetStage(recipe, folder).has_train_queries():
        return file, []
    added = len(recipe.retrievers) - file.listed
    listed = [unfit[c.label] for c in recipe.retrievers[added:] if c.label in unfit]
    if listed:
        raise _refuse_unfit(file, listed)
    kept = tuple(c for c in recipe.retrievers if c.label not in unfit)
    # A reader of the run's recipe does not add them again.
    fitting = recipe.model_copy(update={"retrievers": kept, "baselines": False})
    note = f"not fitted, since the dataset has no train queries: {', '.join(unfit)}"
    return replace(file, recipe=fitting), [note]


def _find_unfit(configs: Sequence[RetrieverConfig]) -> dict[str, str]:
    """Describe the retrievers that cannot be fitted without train queries, by label."""
    unfit: dict[str, str] = {}
    for config in configs:
        first = next((label for label in config.needs if label in unfit), "")
        if config.needs_queries:
            unfit[config.label] = config.label
        elif first:
            unfit[config.label] = f"{config.label} (over {first})"
    return unfit


def _refuse_unfit(file: RecipeFile, listed: Sequence[str]) -> InputError:
    found = read_split(file.recipe)
    splits = ", ".join(
        f"{found.splits[name]:,} {name}" for name in ("validation", "test")
    )
    lines = (
        f"{file.path}: retrievers: the dataset has no train queries ({splits}), which these need: "
        f"{', '.join(listed)}. Remove them.",
        *(f"  {line}" for line in found.describe_left_out()),
        "To train, name a split of the dataset train, remove its splits so that toolbank draws "
        f"them, or generate asks for its tools (`asks`). {SPLIT_NAMES}",
    )
    return InputError("\n".join(lines))
