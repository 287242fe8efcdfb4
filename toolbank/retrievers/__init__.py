"""Retrievers: a file or folder for each method, and the settings of all."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.config.registry import Registry
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind
from toolbank.system.errors import ToolbankError
from toolbank.system.extras import telling_extras

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

RETRIEVERS = Registry(
    "retriever",
    "toolbank.retrievers",
    RetrieverKind,
    {
        "bm25": "toolbank.retrievers.settings:BM25",
        "descriptions": "toolbank.retrievers.settings:DESCRIPTIONS",
        "nearest": "toolbank.retrievers.settings:NEAREST",
        "tool2vec": "toolbank.retrievers.settings:TOOL2VEC",
        "mlc": "toolbank.retrievers.settings:MLC",
        "refiner": "toolbank.retrievers.settings:REFINER",
        "protip": "toolbank.retrievers.settings:PROTIP",
        "nnn": "toolbank.retrievers.settings:NNN",
        "fusion": "toolbank.retrievers.settings:FUSION",
        "decomposition": "toolbank.retrievers.llm_settings:DECOMPOSITION",
        "llm": "toolbank.retrievers.llm_settings:LLM",
    },
)


def create_retriever(config: RetrieverConfig) -> Retriever:
    """A retriever of the configured method, still to be fitted.

    Raises:
        InputError: another package brings it, and it can't be made.
    """
    from toolbank.retrievers.base import Retriever

    kind = RETRIEVERS.find(config.type, "retrievers")
    with answering_for(config, f"be made of {kind.retriever}"):
        retriever = kind.find_class()(config)
        if not isinstance(retriever, Retriever):
            raise TypeError(f"it is a {type(retriever).__name__}, and no Retriever")
    return retriever


@contextmanager
def answering_for(config: RetrieverConfig, what: str) -> Iterator[None]:
    """Have the package of a retriever of others answer for what fails in the block.

    `what` is that it can't do, such as "be fitted". What fails in one of ours is raised as it is.

    Raises:
        InputError: in place of any exception that is not ours or the system's.
    """
    try:
        with telling_extras():
            yield
    except (ToolbankError, OSError):
        raise
    except Exception as error:
        if config.type in RETRIEVERS.own:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise RETRIEVERS.refuse(
            config.type, f"can't {what} ({said}; {place.filename}, line {place.lineno})"
        ) from error


def load_retriever(folder: Path) -> Retriever:
    """Read a saved retriever of any method; no bank needed.

    Raises:
        InputError: the folder or a file in it is missing, damaged, or of an unknown method.
    """
    from toolbank.retrievers.base import (
        find_packed,
        read_config,
        read_settings,
        read_tools,
    )

    settings = read_settings(folder)
    kind = RETRIEVERS.find(settings["type"], str(folder))
    config = find_packed(read_config(folder, kind.config, settings), folder)
    retriever = create_retriever(config)
    with answering_for(retriever.config, "be loaded"):
        retriever.load(folder, read_tools(folder))
    return retriever
