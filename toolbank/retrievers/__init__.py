"""Retrievers: a file or folder for each method, and the settings of all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from toolbank.config.explain import first_problem
from toolbank.config.registry import InFile, Registry
from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind
from toolbank.retrievers.own_file import OwnRetrieverConfig, load_kind
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras

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
    InFile(OwnRetrieverConfig, load_kind),
)


def create_retriever(config: RetrieverConfig) -> Retriever:
    """Create a retriever of the configured method; it still has to be fitted.

    Raises:
        InputError: a library or an encoder that it needs is missing, its class is not a
            Retriever, or a setting of a class in a file is not valid.
    """
    from toolbank.encoders.model import state_prompts
    from toolbank.retrievers.base import Retriever

    kind = RETRIEVERS.find(config.type, "retrievers")
    if isinstance(config, OwnRetrieverConfig):
        config = config.read_settings(kind)
    with naming_extras():
        made = kind.find_class()
        if not (isinstance(made, type) and issubclass(made, Retriever)):
            raise InputError(
                f"retrievers: {config.type} is not a Retriever ({kind.retriever}). Update the "
                "package that provides it, or uninstall it."
            )
        stated = {
            name: state_prompts(value)
            for name, value in config
            if isinstance(value, EncoderConfig) and value in config.encoders
        }
        retriever: Retriever = made(config.model_copy(update=stated))
    return retriever


def load_retriever(folder: Path) -> Retriever:
    """Load a saved retriever of any method, without the bank.

    Raises:
        InputError: the folder or a file in it is missing, damaged, or of an unknown method.
    """
    from toolbank.retrievers.base import CONFIG, find_packed, read_settings, read_tools
    from toolbank.retrievers.stored import AGAIN

    settings = read_settings(folder)
    kind = RETRIEVERS.find(settings["type"], str(folder))
    try:
        config = kind.config.model_validate(settings)
    except ValidationError as error:
        raise InputError(
            f"{folder / CONFIG}: {first_problem(error)}. {AGAIN}"
        ) from error
    retriever = create_retriever(find_packed(config, folder))
    with naming_extras():
        retriever.load(folder, read_tools(folder))
    return retriever
