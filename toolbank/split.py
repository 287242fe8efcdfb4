"""Train, validation and test: a pure function of the queries and the seed."""

from collections.abc import Collection, Iterator
from random import Random
from typing import Self

from pydantic import Field, model_validator

from toolbank.bank import Query, Split
from toolbank.config import Config


class SplitConfig(Config):
    """Shares of the queries held back from training."""

    validation: float = Field(default=0.1, ge=0, lt=1)
    test: float = Field(default=0.1, gt=0, lt=1)

    @model_validator(mode="after")
    def _leaves_train(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation ({self.validation}) and test ({self.test}) leave nothing to train on"
            )
        return self


def split_queries(
    queries: Collection[Query], config: SplitConfig, seed: int
) -> Iterator[Query]:
    """Give every query its split, as it is asked for; order and content stay."""
    splits = assign_splits(len(queries), config, seed)
    for query, split in zip(queries, splits, strict=True):
        yield query.model_copy(update={"split": split})


def assign_splits(count: int, config: SplitConfig, seed: int) -> list[Split]:
    """The split of each position; shares are rounded.

    The published 8:1:1 shares are the default (ToolBank, arXiv 2409.02141).
    """
    order = list(range(count))
    Random(f"{seed}:split").shuffle(order)
    n_test = round(config.test * count)
    n_validation = round(config.validation * count)
    splits: list[Split] = ["train"] * count
    for position in order[:n_test]:
        splits[position] = "test"
    for position in order[n_test : n_test + n_validation]:
        splits[position] = "validation"
    return splits
