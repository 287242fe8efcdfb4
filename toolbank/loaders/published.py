"""What `toolbank publish` left in a folder: data/*.parquet, with the columns of a bank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar, get_args

from toolbank.bank.bank import Label, LabelledQuery, LeftOut
from toolbank.bank.files import read_records
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.loaders.gather import Dataset, gather
from toolbank.loaders.kind import DatasetConfig, DatasetKind

DATA = "data"
"""The folder of the shards."""

_SHARD = re.compile(r"([a-z]+)-\d{5}-of-(\d{5})\.parquet")
_REQUIRED = ("tools", *get_args(Split))
ASIDE = "aside"
"""The shards of requests that a grade has set aside: they are in no split's files."""

_OPTIONAL = ("asks", "labels", ASIDE)

R = TypeVar("R", bound=Record)


class PublishedConfig(DatasetConfig):
    """A folder that `toolbank publish` wrote, with its labels and asks."""

    type: Literal["published"]


def shard_name(name: str, number: int, count: int) -> str:
    """The file of a shard: its number among how many."""
    return f"{name}-{number:05}-of-{count:05}.parquet"


def read_published(config: PublishedConfig) -> Dataset:
    """Read tools, queries, asks and labels; each query has the split of its file.

    Queries have their first labels as `tools`, and their merged ones as `labels`, as in the bank
    that was published. Those that were set aside have the split that they would be in.

    Raises:
        InputError: a file can't be read, or is not of this layout.
    """
    queries = (
        query.model_copy(update={"split": split})
        for split in get_args(Split)
        for query in _read(config, split, LabelledQuery)
    )
    aside = _read(config, ASIDE, LabelledQuery)
    return gather(
        _read(config, "tools", Tool),
        map(_with_first_labels, (*queries, *aside)),
        LeftOut(),
        _read(config, "asks", Ask),
        _read(config, "labels", Label),
    )


def _with_first_labels(query: LabelledQuery) -> Query:
    """The query as its bank has it; publications of version 0.7.0 have no `tools_first`."""
    row = {name: getattr(query, name) for name in Query.model_fields}
    return Query(**{**row, "tools": query.tools_first or query.tools})


def published_files(config: PublishedConfig) -> tuple[Path, ...]:
    """The files that are read; of those numbered, all that there have to be."""
    names = (*_REQUIRED, *_OPTIONAL)
    return tuple(path for name in names for path in _shards(config, name))


def _read(config: PublishedConfig, name: str, kind: type[R]) -> Iterator[R]:
    for path in _shards(config, name):
        yield from read_records(path, kind)


def _shards(config: PublishedConfig, name: str) -> list[Path]:
    folder = config.path / DATA
    found = (_SHARD.fullmatch(path.name) for path in folder.glob(f"{name}-*.parquet"))
    counts = {int(match[2]) for match in found if match and match[1] == name}
    if not counts and name in _REQUIRED:
        counts = {1}
    return [
        folder / shard_name(name, number, count)
        for count in sorted(counts)
        for number in range(count)
    ]


KIND = DatasetKind(PublishedConfig, read_published, published_files)
