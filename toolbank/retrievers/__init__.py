"""Retrievers: one folder a method, which says of itself what the rest has to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.retrievers.method import RetrieverConfig, RetrieverKind

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

METHODS = Registry(
    "retriever",
    "toolbank.retrievers",
    RetrieverKind,
    {
        "bm25": "toolbank.retrievers.bm25.config:KIND",
        "descriptions": "toolbank.retrievers.descriptions.config:KIND",
        "nearest": "toolbank.retrievers.nearest.config:KIND",
        "tool2vec": "toolbank.retrievers.tool2vec.config:KIND",
        "mlc": "toolbank.retrievers.mlc.config:KIND",
        "refiner": "toolbank.retrievers.refiner.config:KIND",
        "protip": "toolbank.retrievers.protip.config:KIND",
        "nnn": "toolbank.retrievers.nnn.config:KIND",
        "decomposition": "toolbank.retrievers.decomposition.config:KIND",
    },
)


def create_retriever(config: RetrieverConfig) -> Retriever:
    """A retriever of the configured method, still to be fitted."""
    kind = METHODS.find(config.type, "retrievers")
    retriever: Retriever = kind.find_class()(config)
    return retriever


def load_retriever(folder: Path) -> Retriever:
    """Read a saved retriever of any method; no bank needed.

    Raises:
        InputError: the folder or a file in it is missing, damaged, or of an unknown method.
    """
    from toolbank.retrievers.head import read_config, read_settings, read_tools

    settings = read_settings(folder)
    kind = METHODS.find(settings["type"], str(folder))
    retriever = create_retriever(read_config(folder, kind.config, settings))
    retriever.load(folder, read_tools(folder))
    return retriever
