"""A bank that `toolbank publish --to hub:NAME` left on a model hub."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from toolbank.loaders.gather import Dataset
from toolbank.loaders.kind import DatasetKind, DatasetSettings
from toolbank.loaders.published import (
    DATA,
    PublishedConfig,
    published_files,
    read_published,
)
from toolbank.system.errors import InputError
from toolbank.system.hub import asking_hub, check_repository


class HubConfig(DatasetSettings):
    """A dataset repository of the hub that HF_ENDPOINT names, or huggingface.co."""

    type: Literal["hub"]
    name: str = Field(description="of the repository: OWNER/NAME")
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="a commit, tag or branch; unset: the newest state, so that a later run sees "
        "what changed there",
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
    """Read what was published, downloaded before if it is not on this machine.

    Raises:
        InputError: there is no such repository, or a file of it is not of this layout.
        ToolbankError: the hub can't be reached, and nothing of it is here.
    """
    return read_published(_as_folder(find_snapshot(config)))


def find_snapshot(config: HubConfig) -> Path:
    """The folder of the hub's cache that holds the files, as they are on the hub now.

    The hub is asked once a process. Where it can't be reached, what is here counts.

    Raises:
        InputError, ToolbankError: as of `read_hub`.
    """
    from huggingface_hub import constants

    return _download(
        config.name, config.revision, constants.ENDPOINT, constants.HF_HUB_CACHE
    )


def hub_files(config: HubConfig) -> tuple[Path, ...]:
    """The files that are read, as far as they are on this machine."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import IncompleteSnapshotError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            config.name,
            repo_type="dataset",
            revision=config.revision,
            allow_patterns=_READ,
            local_files_only=True,
        )
    except (IncompleteSnapshotError, LocalEntryNotFoundError):
        return ()
    return published_files(_as_folder(Path(folder)))


_READ = f"{DATA}/*.parquet"


@cache
def _download(name: str, revision: str | None, endpoint: str, caches: str) -> Path:
    from huggingface_hub import snapshot_download

    with asking_hub(name):
        folder = snapshot_download(
            name,
            repo_type="dataset",
            revision=revision,
            endpoint=endpoint,
            cache_dir=caches,
            allow_patterns=_READ,
        )
    if not Path(folder).is_dir():
        raise InputError(
            f"hub:{name}: holds no {_READ}, as `toolbank publish` leaves it. Give the name of a "
            "dataset that was published so."
        )
    return Path(folder)


def _as_folder(folder: Path) -> PublishedConfig:
    return PublishedConfig(type="published", path=folder)


HUB = DatasetKind(HubConfig, read_hub, hub_files, find_snapshot)
