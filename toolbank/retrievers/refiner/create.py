"""The refiner's network on an encoder's transformer: made anew, or read back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.retrievers.network import (
    drop_pooler,
    load_network,
    make_transformer,
    read_transformer,
)
from toolbank.retrievers.refiner.model import RefinerModel
from toolbank.retrievers.refiner.sequence import check_body

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def make_refiner(
    encoder: str, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """A network still to be trained on an encoder's transformer.

    Raises:
        InputError: there is no such encoder, it can't be read, or its architecture does not
            serve.
    """
    from transformers import AutoModel

    body, tokenizer = read_transformer(encoder, lambda _: AutoModel)
    check_body(body, encoder)
    drop_pooler(body)
    return RefinerModel(body, dimension), tokenizer


def load_refiner(
    folder: Path, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """Read a trained network.

    Raises:
        InputError: a file is missing or damaged, or its weights are another network's.
    """
    from transformers import AutoModel

    def make(config: Any) -> RefinerModel:
        body = make_transformer(config, AutoModel)
        check_body(body, str(folder))
        drop_pooler(body)
        return RefinerModel(body, dimension)

    return load_network(folder, make)
