"""Other people's datasets: how their files are laid out, and reading them."""

from toolbank.config.registry import Registry
from toolbank.loaders.kind import DatasetKind

DATASETS = Registry(
    what="dataset format",
    group="toolbank.datasets",
    kind=DatasetKind,
    own={
        "jsonl": "toolbank.loaders.jsonl:KIND",
        # Before `toollens`, whose files a published folder has, too.
        "published": "toolbank.loaders.published:KIND",
        "hub": "toolbank.loaders.hub:HUB",
        "toolbank": "toolbank.loaders.toolbank:KIND",
        "toolbench": "toolbank.loaders.toolbench:KIND",
        "toolbench-conversations": "toolbank.loaders.conversations:CONVERSATIONS",
        "toollens": "toolbank.loaders.toollens:KIND",
    },
)
"""Layouts by `dataset.type`; another package brings one by an entry point."""
