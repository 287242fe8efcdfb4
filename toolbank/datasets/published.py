"""Read banks that `toolbank publish` wrote, from a folder or a hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import Field, field_validator

from toolbank.bank.bank import Label, LabelledQuery, SkipCounter
from toolbank.bank.files import read_records
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import DatasetConfig, DatasetKind, DatasetSettings
from toolbank.system.errors import InputError
from toolbank.system.hub import check_repository, explaining_hub_errors

DATA = "data"
"""The folder of the shards."""

_SHARD = re.compile(r"([a-z]+)-\d{5}-of-(\d{5})\.parquet")
_REQUIRED = ("tools", *get_args(Split))
ASIDE = "aside"
"""The shards of queries that a grade excluded from the splits."""

MISSING_ROWS = "missing"
"""The shards of queries that no tool fits."""

_OPTIONAL = ("asks", "labels", ASIDE, MISSING_ROWS)

R = TypeVar("R", bound=Record)


class PublishedConfig(DatasetConfig):
    """A folder that `toolbank publish` wrote, with its labels and asks."""

    type: Literal["published"]


def shard_name(name: str, number: int, count: int) -> str:
    """Return the file name of shard `number` of `count`."""
    return f"{name}-{number:05}-of-{count:05}.parquet"


def read_published(config: PublishedConfig) -> Dataset:
    """Read tools, queries, asks and labels; each query with tools has the split of its file.

    Queries have their first labels as `tools`, and their merged ones as `labels`, as in the
    published bank. Excluded queries keep the split that they were drawn for.

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
        SkipCounter(),
        _read(config, "asks", Ask),
        _read(config, "labels", Label),
        _read(config, MISSING_ROWS, Query),
    )


def _with_first_labels(query: LabelledQuery) -> Query:
    """The query of the bank; publications of version 0.7.0 have no `tools_first`."""
    row = {name: getattr(query, name) for name in Query.model_fields}
    return Query(**{**row, "tools": query.tools_first or query.tools})


def published_files(config: PublishedConfig) -> tuple[Path, ...]:
    """List the files that are read, including missing shards."""
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


class HubConfig(DatasetSettings):
    """A dataset repository on huggingface.co, or on the hub that HF_ENDPOINT names."""

    type: Literal["hub"]
    name: str = Field(description="repository, OWNER/NAME")
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="commit, tag or branch; default: the newest",
    )

    @property
    def place(self) -> str:
        """The repository."""
        return f"hub:{self.name}"

    @field_validator("name")
    @classmethod
    def _is_a_repository(cls, name: str) -> str:
        check_repository(name)
        return name


def read_hub(config: HubConfig) -> Dataset:
    """Read a published bank, which is downloaded first if necessary.

    Raises:
        InputError: there is no such repository, or a file has another layout.
        ToolbankError: the hub can't be reached, and the repository is not in the cache.
    """
    return read_published(_as_folder(config))


def find_snapshot(config: HubConfig) -> Path:
    """Return the folder of the hub's cache with the current files.

    The hub is asked once per process. If it can't be reached, the cache is used.

    Raises:
        InputError, ToolbankError: as of `read_hub`.
    """
    from huggingface_hub import constants

    return _download(
        config.name, config.revision, constants.ENDPOINT, constants.HF_HUB_CACHE
    )


def hub_files(config: HubConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    return published_files(_as_folder(config))


_READ = f"{DATA}/*.parquet"


@cache
def _download(name: str, revision: str | None, endpoint: str, caches: str) -> Path:
    from huggingface_hub import snapshot_download

    with explaining_hub_errors(name):
        folder = snapshot_download(
            name,
            repo_type="dataset",
            revision=revision,
            endpoint=endpoint,
            cache_dir=caches,
            allow_patterns=_READ,
            ignore_patterns=[f"{DATA}/{name}-*" for name in ("replies", "failures")],
        )
    if not Path(folder).is_dir():
        raise InputError(
            f"hub:{name}: no {_READ} in it. Name a dataset that `toolbank publish` wrote."
        )
    return Path(folder)


def _as_folder(config: HubConfig) -> PublishedConfig:
    return PublishedConfig(type="published", path=find_snapshot(config))


HUB = DatasetKind(HubConfig, read_hub, hub_files, find_snapshot)
