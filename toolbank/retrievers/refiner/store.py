"""The refiner's network on disk: the body's config, its tokenizer, all weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from toolbank.encoders.model import find_model, has_tokenizer, reading
from toolbank.retrievers.refiner.model import RefinerModel
from toolbank.retrievers.refiner.sequence import Body, check_body
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WEIGHTS = "model.safetensors"


def make_model(
    encoder: str, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """A network still to be trained on an encoder's transformer.

    Raises:
        InputError: there is no such encoder, it can't be read, or its architecture does not
            serve.
    """
    from transformers import AutoModel, AutoTokenizer

    folder = find_model(encoder)
    with reading(folder, "It needs config.json, a tokenizer, and safetensors."):
        body: Body = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    check_body(body, encoder)
    return RefinerModel(_without_pooler(body), dimension), tokenizer


def save_model(
    folder: Path, model: RefinerModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Write what `load_saved` reads."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model.body.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    weights = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    with atomic_path(folder / _WEIGHTS) as temporary:
        save_file(weights, temporary)


def load_saved(
    folder: Path, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """Read a trained network; no code that lies there is run, and nothing unpickled.

    Raises:
        InputError: a file is missing or damaged, or its weights are another network's.
    """
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    with reading(folder, "Fit it again: toolbank train RUN."):
        if not has_tokenizer(folder):
            raise ValueError("no tokenizer")
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        body: Body = AutoModel.from_config(
            config, trust_remote_code=False, dtype=torch.float32
        )  # type: ignore[no-untyped-call]
        check_body(body, str(folder))
        model = RefinerModel(_without_pooler(body), dimension)
        weights = load_file(folder / _WEIGHTS)
        model.load_state_dict(weights)
        if not all(bool(torch.isfinite(values).all()) for values in weights.values()):
            raise ValueError("weights that are not finite")
        if len(tokenizer) > config.vocab_size:
            raise ValueError("a tokenizer with more tokens than the model has")
    return model.eval(), tokenizer


def _without_pooler(body: Body) -> Body:
    """The body without a layer that is not read: a training in many processes would miss it."""
    if getattr(body, "pooler", None) is not None:
        body.pooler = None
    return body
