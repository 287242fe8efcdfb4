"""Train, validation and test: a pure function of the queries and the seed."""

from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Self

from pydantic import Field, model_validator

from toolbank.bank.apart import SplitBy, Units, assign_apart
from toolbank.bank.records import Query, Split
from toolbank.config.base import Config


class SplitConfig(Config):
    """Shares of the queries held back from training."""

    by: SplitBy = Field(
        default="random",
        description="what no two splits share: a set of tools, a tool, or a family (tag, module or "
        "server) of tools; queries that would straddle two are left out, and counted",
    )
    validation: float = Field(
        default=0.1, ge=0, lt=1, description="share for choosing the best weights"
    )
    test: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="share for the figures; of a dataset, it may be all",
    )
    withhold_tools: float = Field(
        default=0,
        ge=0,
        lt=1,
        description="share of the tools that no query of train or validation may use",
    )

    @model_validator(mode="after")
    def _holds_back_once(self) -> Self:
        if self.withhold_tools and self.by in ("tool", "family"):
            raise ValueError(
                f"withhold_tools and `by: {self.by}` both hold tools back; leave one of the two out"
            )
        return self

    @model_validator(mode="after")
    def _is_at_most_all(self) -> Self:
        if self.validation + self.test > 1:
            raise ValueError(
                f"validation ({self.validation}) and test ({self.test}) are more than all"
            )
        return self


def split_queries(
    queries: Collection[Query],
    config: SplitConfig,
    seed: int,
    withheld: frozenset[str] = frozenset(),
    gone: frozenset[str] = frozenset(),
    units: Units | None = None,
) -> Iterator[Query]:
    """Give every query its split, as it is asked for; order and content stay.

    Those of train and validation that use a tool of `withheld` get none, and neither do those of
    any split that use one that is `gone`. With `units`, no two splits share one, and queries that
    have units of two get none.
    """
    splits: Sequence[Split | None] = assign_splits(len(queries), config, seed)
    if units:
        n_test, n_validation = (splits.count(name) for name in ("test", "validation"))
        shown = [units(query) for query in queries]
        splits = assign_apart(shown, n_test, n_validation, seed)
    for query, split in zip(queries, splits, strict=True):
        yield _withhold(
            query, split if gone.isdisjoint(query.tools) else None, withheld
        )


def split_dataset(
    queries: Sequence[Query],
    config: SplitConfig,
    seed: int,
    withheld: frozenset[str] = frozenset(),
    units: Units | None = None,
) -> list[Query]:
    """Give a dataset's queries their splits; test and validation that it has itself stay.

    Where it has no test or no validation part, this is carved out of all others. Withheld
    tools and units are as in `split_queries`.
    """
    given = [query.split for query in queries]
    free = [i for i, s in enumerate(given) if s not in ("validation", "test")]
    n_test = 0 if "test" in given else round(config.test * len(free))
    n_validation = 0 if "validation" in given else round(config.validation * len(free))
    carved = dict(zip(free, _carve(len(free), n_test, n_validation, seed), strict=True))
    splits = [carved.get(i, query.split) for i, query in enumerate(queries)]
    if units:
        shown = [units(query) for query in queries]
        splits = assign_apart(shown, n_test, n_validation, seed, given)
    return [
        _withhold(query, split, withheld)
        for query, split in zip(queries, splits, strict=True)
    ]


def draw_withheld(
    tools: Sequence[str],
    config: SplitConfig,
    seed: int,
    earlier: Sequence[Sequence[str]] = (),
) -> frozenset[str]:
    """The names of the tools whose use is left out of training.

    Those of `earlier` versions of the tools stay what they are, withheld or not.
    """
    withheld: set[str] = set()
    known: set[str] = set()
    for number, names in enumerate((*earlier, tools)):
        new = [name for name in names if name not in known]
        random = Random(f"{seed}:withhold{f':{number}' if number else ''}")
        withheld.update(random.sample(new, round(config.withhold_tools * len(new))))
        known.update(new)
    return frozenset(withheld.intersection(tools))


def assign_splits(count: int, config: SplitConfig, seed: int) -> list[Split]:
    """The split of each position; shares are rounded.

    The published 8:1:1 shares are the default (ToolBank, arXiv 2409.02141).
    """
    n_test, n_validation = round(config.test * count), round(config.validation * count)
    return _carve(count, n_test, n_validation, seed)


def _carve(count: int, n_test: int, n_validation: int, seed: int) -> list[Split]:
    order = list(range(count))
    Random(f"{seed}:split").shuffle(order)
    splits: list[Split] = ["train"] * count
    for position in order[:n_test]:
        splits[position] = "test"
    for position in order[n_test : n_test + n_validation]:
        splits[position] = "validation"
    return splits


def _withhold(query: Query, split: Split | None, withheld: frozenset[str]) -> Query:
    drops = split != "test" and not withheld.isdisjoint(query.tools)
    return query.model_copy(update={"split": None if drops else split})
