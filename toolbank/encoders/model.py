"""Load sentence-transformers models, and embed texts with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.config import PREFIXES, EncoderConfig, Precision
from toolbank.encoders.location import (
    ADAPTED,
    READ_PATTERNS,
    find_cached,
    find_folder,
    find_packaged,
    hub_name,
    is_default,
    locate,
    merge_adapter,
    read_learned,
)
from toolbank.encoders.sentence import SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.extras import (
    MissingLibraryError,
    install_advice,
    naming_extras,
)
from toolbank.system.files import read_json
from toolbank.training.ranks import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

C = TypeVar("C", bound=EncoderConfig)

_HUB_TIMEOUT_S = 10
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "*.model",
    "whitespacetokenizer_config.json",
)
"""The files that may hold the vocabulary of a tokenizer; each tokenizer has one of them."""


def load_model(name: str) -> SentenceTransformer:
    """Read a model from a folder, from the cache of the hub, or from the hub, in this order.

    `find_folder` decides what is a folder. The default model is also found in the package of the
    extra `minilm`; the name `toolbank` merges the adapter into it. Weights are read from
    safetensors only, as float32, and no code of a model is run.

    Raises:
        InputError: there is no such model, or it cannot be downloaded or read.
    """
    remedy = (
        "A sentence encoder needs config.json, a tokenizer, and weights as safetensors; pickled "
        "weights are not read."
    )
    folder = find_model(name)
    with reading_model(folder, remedy):
        import torch
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )
        _complete(model)
    if name == ADAPTED:
        body: Any = model[0]
        merge_adapter(body.auto_model)
    return model


def _complete(model: SentenceTransformer) -> None:
    """Let a model pad, cut its vectors, and read padded tokens, whatever it is made of."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer: Any = model.tokenizer
    if getattr(tokenizer, "pad_token", "") is None:
        # The mask hides the padding, so any token will do.
        spare = tokenizer.eos_token or tokenizer.unk_token
        tokenizer.pad_token = spare or tokenizer.convert_ids_to_tokens(0)
    if isinstance(model[0], StaticEmbedding):
        static = model.float()[0]
        static.forward = MethodType(_average_tokens, static)
    if model.truncate_dim is not None:
        # A training and `encode` see the same vectors.
        model.register_forward_hook(_truncate)


def _average_tokens(static: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Add the mean vector [n, d] of padded tokens [n, l], or of tokens one after another."""
    from torch.nn.functional import embedding

    if "offsets" in features:
        return dict(type(static).forward(static, features))
    weights = static.embedding.weight
    mask = features["attention_mask"].unsqueeze(-1).to(weights.dtype)
    rows = embedding(features["input_ids"], weights) * mask
    mean = rows.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return {**features, "sentence_embedding": mean}


def _truncate(model: Any, _: Any, features: dict[str, Any]) -> None:
    vectors = features["sentence_embedding"]
    features["sentence_embedding"] = vectors[..., : model.truncate_dim]


def find_model(name: str) -> Path:
    """Find the folder of a model as `load_model` does, and download it if necessary.

    Raises:
        InputError: there is no such model, it cannot be downloaded, or it has no tokenizer.
    """
    folder = require_model(name)
    if folder is None:
        with _hub(name) as repository:
            from huggingface_hub import snapshot_download

            patterns = list(READ_PATTERNS)
            folder = Path(snapshot_download(repository, allow_patterns=patterns))
        _demand_parts(folder)
    return folder


def require_model(name: str) -> Path | None:
    """Find the folder of a model on this machine; None if the hub has it.

    Raises:
        InputError: it is neither here nor on the hub, or the folder is incomplete.
    """
    folder = find_local_model(name)
    if folder is None:
        with _hub(name) as repository:
            _ask_hub(repository)
    return folder


def find_local_model(name: str) -> Path | None:
    """Find the folder of a model on this machine; None if there is none.

    Raises:
        InputError: there is no such folder, or it has no tokenizer or no weights.
    """
    folder = find_folder(name)
    if folder is None:
        repository = hub_name(name)
        folder = find_cached(repository) or find_packaged(repository)
    if folder is not None:
        _demand_parts(folder)
    return folder


_PROMPTS = {
    "query_prefix": ("query",),
    "document_prefix": ("document", "passage", "corpus"),
}
"""The names of prompts in the settings of sentence-transformers, by the keys of prefixes."""
# These models state their prompts only in their documentation.
_E5 = re.compile(r"(?:^|/)(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?$")


def state_prompts(config: C) -> C:
    """Set the prefixes that a configuration leaves to its model.

    They are those of a fine-tuning, or the model's own prompts, or the model's default prompt.

    Raises:
        InputError: there is no such model, or it leaves its prompts out of the vectors.
    """
    if not isinstance(config, SentenceConfig):
        return config
    if None not in (config.query_prefix, config.document_prefix):
        return config
    name = locate(config)
    own = read_learned(Path(name).parent) if config.run else _read_prompts(name)
    return config.with_prefixes(own)


def describe_prompts(config: EncoderConfig) -> str:
    """Describe the prompts that `state_prompts` sets; "" if there are none, or no model here yet."""
    if find_local_model(locate(config)) is None:
        return ""
    stated, own = state_prompts(config), []
    for key, what in zip(PREFIXES, ("queries", "descriptions"), strict=True):
        text = getattr(stated, key, "")
        if text and text != getattr(config, key):
            own.append(f"{text!r} before {what}")
    if not own:
        return ""
    return (
        f"{config.label}: the model's own prompts are used, {' and '.join(own)}; "
        "encoder.query_prefix and encoder.document_prefix replace them"
    )


def _read_prompts(name: str) -> dict[str, str]:
    folder = find_model(name)
    settings = read_mapping(folder / "config_sentence_transformers.json")
    kind = settings.get("model_type", "SentenceTransformer")
    prompts = settings.get("prompts") if kind == "SentenceTransformer" else None
    if not isinstance(prompts, dict) or not any(prompts.values()):
        own = ("query: ", "passage: ") if _E5.search(name.rstrip("/")) else ("", "")
        return dict(zip(PREFIXES, own, strict=True))
    if any(not one.get("include_prompt", True) for one in read_modules(folder)):
        raise InputError(
            f"{folder}: its vectors leave out the tokens of its prompts, which toolbank cannot do. "
            "Give another model, or set encoder.query_prefix and encoder.document_prefix."
        )
    default = settings.get("default_prompt_name")
    others = set().union(*_PROMPTS.values())
    fallback = "" if default in others else prompts.get(default)
    found = {
        key: next((prompts[name] for name in names if prompts.get(name)), fallback)
        for key, names in _PROMPTS.items()
    }
    return {key: str(text or "") for key, text in found.items()}


def read_modules(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the settings of each module of a sentence-transformers folder, and its `type`."""
    path = folder / "modules.json"
    for module in read_json(path) if path.is_file() else ():
        if isinstance(module, dict):
            place = str(module.get("path", ""))
            # A module without a folder of its own is a transformer.
            settings = read_mapping(folder / place / "config.json") if place else {}
            yield {**settings, "type": str(module.get("type"))}


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the settings of a file; {} if there is none, or something else in it."""
    settings = read_json(path) if path.is_file() else {}
    return settings if isinstance(settings, dict) else {}


def has_tokenizer(folder: Path) -> bool:
    """Whether a model's folder holds a vocabulary; transformers would invent an empty one."""
    return any(path for name in _TOKENIZERS for path in folder.rglob(name))


def save_model(model: SentenceTransformer, folder: Path) -> None:
    """Write a model to a folder that `load_model` reads, with weights as safetensors."""
    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)


@contextmanager
def reading_model(folder: Path, remedy: str) -> Iterator[None]:
    """Explain what is wrong with a folder that is read, and suppress notes of libraries.

    Raises:
        InputError: it cannot be read, with `remedy` in the message; or a library is missing.
    """
    with quiet():
        try:
            with naming_extras():
                yield
        except MissingLibraryError:
            raise
        # A folder can be damaged in any way, and the libraries document no error type.
        except Exception as error:
            raise InputError(
                f"{folder}: can't be read ({type(error).__name__}: {_first_line(error)}). "
                f"{remedy}"
            ) from error


def _demand_parts(folder: Path) -> None:
    if not has_tokenizer(folder):
        raise InputError(
            f"{folder}: it has no tokenizer (tokenizer.json, vocab.txt, or a sentencepiece "
            "model), so every word would be unknown to the model. Add it, or give another folder."
        )
    if not any(folder.rglob("*.safetensors")):
        raise InputError(
            f"{folder}: it has no weights as safetensors; pickled weights are not read. Save "
            "them with save_pretrained, which writes safetensors, or give another folder."
        )
    for module in read_modules(folder):
        if module["type"].endswith((".Router", ".Asym")):
            raise InputError(
                f"{folder}: has separate networks for queries and documents "
                f"({module['type']}), and toolbank uses one for both. Give another model."
            )


@contextmanager
def _hub(name: str) -> Iterator[str]:
    """Give the repository of a model, and explain what the hub raises."""
    from huggingface_hub.errors import RepositoryNotFoundError

    repository = hub_name(name)
    hint = f" For the folder here, write ./{name}." if Path(name).is_dir() else ""
    try:
        with naming_extras(), quiet():
            yield repository
    except MissingLibraryError:
        raise
    except RepositoryNotFoundError as error:
        raise InputError(
            f"encoder.model: no folder and no public model has the name {repository!r}. Check the "
            f"spelling, or give a folder that holds the model.{hint}"
        ) from error
    # The HTTP library of the hub, and what it raises, differ between its versions.
    except Exception as error:
        remedy = "Give a folder that holds the model."
        if is_default(repository):
            remedy = f"It also comes as a package. {install_advice('minilm')}"
        raise InputError(
            f"encoder.model: {repository} is not on this machine, and the hub cannot be reached "
            f"({_first_line(error)}). {remedy}{hint}"
        ) from error


def _ask_hub(repository: str) -> None:
    """Check that a model can be downloaded; a download itself would retry for minutes.

    Raises:
        Exception: the hub has no such model, or cannot be reached.
    """
    from huggingface_hub import HfApi

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise ConnectionError("HF_HUB_OFFLINE is set")
    HfApi().model_info(repository, timeout=_HUB_TIMEOUT_S)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]


_LONGEST = 8192
"""Tokens of a text if the model sets no limit."""


class SentenceEncoder(Encoder):
    """A sentence encoder with its prefixes."""

    def __init__(self, model: SentenceTransformer, config: EncoderConfig) -> None:
        super().__init__(config)
        self._model = model

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the model as `load_model` does."""
        return cls(load_model(name), config)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts without prefixes: unit vectors [n, dimension]."""
        vectors: Any = self._model.encode(
            texts,
            prompt="",
            batch_size=len(texts),
            show_progress_bar=False,
            normalize_embeddings=True,
        )
        return np.asarray(vectors, dtype=np.float32)

    def export(self, folder: Path, precision: Precision) -> None:
        """Write the network with its pooling and norm, and the tokenizer."""
        from toolbank.encoders.onnx_export import TextVectors, export_network

        model: Any = self._model
        longest = min(model.max_seq_length or _LONGEST, _LONGEST)
        export_network(
            folder,
            TextVectors(model, self.dimension, unit=True),
            model.tokenizer,
            longest,
            self.dimension,
            precision,
        )

    def save(self, folder: Path) -> None:
        """Write the model to a folder that `load_model` reads."""
        save_model(self._model, folder)
