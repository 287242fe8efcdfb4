"""Other people's datasets: how their files are laid out, and reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toolbank.config.registry import Registry
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.system.errors import InputError

DATASETS = Registry(
    what="dataset format",
    group="toolbank.datasets",
    kind=DatasetKind,
    own={
        "jsonl": "toolbank.datasets.jsonl:KIND",
        # Before `toollens`, whose files a published folder has, too.
        "published": "toolbank.datasets.published:KIND",
        "hub": "toolbank.datasets.published:HUB",
        "toolbank": "toolbank.datasets.toolbank:KIND",
        "toolbench": "toolbank.datasets.toolbench:KIND",
        "toolbench-conversations": "toolbank.datasets.toolbench:CONVERSATIONS",
        "toollens": "toolbank.datasets.toollens:KIND",
    },
)
"""Layouts by `dataset.type`; another package brings one by an entry point."""


def find_format(folder: Path) -> DatasetConfig:
    """The settings of the first format all of whose files lie in a folder.

    Raises:
        InputError: there is no such folder, or it has the files of no format.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Give the one that holds the data.")
    reasons = []
    for name in DATASETS.names:
        kind: DatasetKind[Any] = DATASETS.load(name)
        try:
            config: DatasetConfig = kind.config(type=name, path=folder)
            kind.find_files(config)
        except ValidationError:
            # It needs settings that nobody has given yet.
            continue
        except InputError as error:
            reasons.append(f"  {name}: {error}")
        else:
            return config
    raise InputError(
        "\n".join(
            [f"{folder}: the files of no format of datasets are there:", *reasons]
        )
    )
