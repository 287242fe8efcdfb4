"""Retrievers: one file a method, one protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.retrievers.config import RetrieverConfig
    from toolbank.retrievers.protocol import Retriever


def create_retriever(config: RetrieverConfig) -> Retriever:
    """A retriever of the configured method, still to be fitted."""
    from toolbank.retrievers.methods import find_method

    retriever: Retriever = find_method(config.type)(config)
    return retriever


def load_retriever(folder: Path) -> Retriever:
    """Read a saved retriever of any method; no bank needed.

    Raises:
        InputError: the folder or a file in it is missing, damaged, or of an unknown method.
    """
    from toolbank.retrievers.methods import METHODS, find_method
    from toolbank.retrievers.store import read_type

    kind = read_type(folder)
    if kind not in METHODS:
        raise InputError(
            f"{folder}: a retriever of type {kind!r}; this version knows {', '.join(METHODS)}."
        )
    retriever: Retriever = find_method(kind).load(folder)
    return retriever
