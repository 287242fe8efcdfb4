"""Networks on a transformer: read from an encoder's folder, written, and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from toolbank.encoders.location import ADAPTED, merge_adapter
from toolbank.encoders.model import find_model, has_tokenizer, reading_model
from toolbank.retrievers.stored import AGAIN
from toolbank.system.files import atomic_path
from toolbank.training.text import batches_by_length

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WEIGHTS = "model.safetensors"

N = TypeVar("N", bound=torch.nn.Module)


_NEEDS = "It needs config.json, a tokenizer, and safetensors."


def read_architecture(encoder: str) -> Any:
    """Read the configuration of an encoder's transformer.

    Raises:
        InputError: there is no such encoder, or it has no transformer.
    """
    from transformers import AutoConfig

    folder = find_model(encoder)
    with reading_model(folder, _NEEDS):
        return AutoConfig.from_pretrained(folder, local_files_only=True)


def read_transformer(
    encoder: str, choose: Callable[[Path], Any], **settings: Any
) -> tuple[Any, PreTrainedTokenizerBase]:
    """Load an encoder's transformer, and its tokenizer.

    `choose` picks one of transformers' Auto classes by the folder; `settings` go into its
    configuration.

    Raises:
        InputError: there is no such encoder, or it cannot be found or read.
    """
    from transformers import AutoTokenizer

    folder = find_model(encoder)
    with reading_model(folder, _NEEDS):
        model = choose(folder).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            **settings,
        )
        if encoder == ADAPTED:
            merge_adapter(model.base_model)
        return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def save_network(
    folder: Path,
    network: torch.nn.Module,
    config: Any = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> None:
    """Write a network's weights, and its transformer's configuration and tokenizer, if any."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    weights: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, values in network.state_dict().items():
        weights[name] = values.detach().cpu().contiguous()
        if weights[name].data_ptr() in places:
            # Tied weights, such as T5's embeddings.
            weights[name] = weights[name].clone()
        places.add(weights[name].data_ptr())
    with atomic_path(folder / _WEIGHTS) as temporary:
        save_file(weights, temporary, metadata={"format": "pt"})


def load_network(
    folder: Path, make: Callable[[Any], N]
) -> tuple[N, PreTrainedTokenizerBase]:
    """Load a network that `make` creates from a transformer's configuration.

    No code from the folder is run, and nothing is unpickled.

    Raises:
        InputError: a file is missing or damaged, or its weights are another network's.
    """
    from transformers import AutoConfig, AutoTokenizer

    with reading_model(folder, AGAIN):
        if not has_tokenizer(folder):
            raise ValueError("no tokenizer")
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        network = make(config)
        load_weights(folder, network)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if len(tokenizer) > config.vocab_size:
            raise ValueError("a tokenizer with more tokens than the model has")
    return network, tokenizer


def load_weights(folder: Path, network: torch.nn.Module) -> None:
    """Load the weights that `save_network` wrote, and switch to evaluation mode.

    Raises:
        InputError: the file is missing or damaged, or its weights are another network's.
    """
    from safetensors.torch import load_file

    with reading_model(folder, AGAIN):
        weights = load_file(folder / _WEIGHTS)
        network.load_state_dict(weights)
        if not all(bool(torch.isfinite(values).all()) for values in weights.values()):
            raise ValueError("weights that are not finite")
    network.eval()


def run_batches(
    network: torch.nn.Module,
    run: Callable[..., torch.Tensor],
    rows: Sequence[Any],
    lengths: Sequence[int],
    size: int,
    collate: Callable[[list[Any]], dict[str, torch.Tensor]],
    width: int,
) -> NDArray[np.float32]:
    """Apply `run`, a network or a part of it, to rows of about the same length: [n, width].

    Dropout is off, and a GPU is used. Batches with less than `width` columns are filled with 0.
    """
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda") if has_gpu else next(network.parameters()).device
    network.to(device).eval()
    found = np.zeros((len(rows), width), np.float32)
    for batch in batches_by_length(lengths, size):
        inputs = collate([rows[place] for place in batch])
        with torch.inference_mode():
            part = run(**{name: given.to(device) for name, given in inputs.items()})
        found[batch, : part.shape[1]] = part.float().cpu().numpy()
    return found


def make_transformer(config: Any, auto: Any) -> Any:
    """Create a transformer from a configuration, without weights."""
    return auto.from_config(config, trust_remote_code=False, dtype=torch.float32)


def drop_pooler(body: Any) -> None:
    """Remove a layer without gradient, which a distributed training would miss."""
    if getattr(body, "pooler", None) is not None:
        body.pooler = None
