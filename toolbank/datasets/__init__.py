"""The formats of existing datasets."""

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
        # Before `jsonl`, whose files it has, too.
        "toolret": "toolbank.datasets.toolret:KIND",
        "jsonl": "toolbank.datasets.jsonl:KIND",
        # Before `toollens`, whose files a published folder has, too.
        "published": "toolbank.datasets.published:KIND",
        "hub": "toolbank.datasets.published:HUB",
        "toolbank": "toolbank.datasets.toolbank:KIND",
        "toolbench": "toolbank.datasets.toolbench:KIND",
        "toolbench-conversations": "toolbank.datasets.toolbench:CONVERSATIONS",
        "toollens": "toolbank.datasets.toollens:KIND",
        "table": "toolbank.datasets.table:KIND",
        # Last: it reads any folder with rows.
        "function-calling": "toolbank.datasets.function_calling:KIND",
    },
)
"""Formats by `dataset.type`; plug-ins add theirs by an entry point."""


def find_format(folder: Path) -> DatasetConfig:
    """Find the first format whose files are all in a folder, or whose rows are in a file.

    Raises:
        InputError: the folder is missing, or has the files of no format.
    """
    if not folder.exists():
        raise InputError(
            f"{folder}: no such file or folder. Name the folder of a dataset."
        )
    reasons = []
    for name in DATASETS.names:
        kind: DatasetKind[Any] = DATASETS.load(name)
        try:
            config: DatasetConfig = kind.config(type=name, path=folder)
            if folder.is_file() and kind.folder(config) == folder:
                continue  # it reads folders
            kind.find_files(config)
        except ValidationError:
            # It needs further settings.
            continue
        except InputError as error:
            reasons.append(f"  {name}: {error}")
        else:
            return config
    raise InputError(
        "\n".join([f"{folder}: not a dataset of a known format:", *reasons])
    )
