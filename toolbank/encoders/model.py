"""Load sentence-transformers models, and embed texts with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig, Precision
from toolbank.encoders.location import (
    ADAPTED,
    READ_PATTERNS,
    find_cached,
    find_folder,
    find_packaged,
    hub_name,
    is_default,
    merge_adapter,
)
from toolbank.system.errors import InputError
from toolbank.system.extras import (
    MissingLibraryError,
    install_advice,
    naming_extras,
)
from toolbank.training.ranks import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


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
    if name == ADAPTED:
        body: Any = model[0]
        merge_adapter(body.auto_model)
    return model


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
            TextVectors(model, unit=True),
            model.tokenizer,
            longest,
            self.dimension,
            precision,
        )

    def save(self, folder: Path) -> None:
        """Write the model to a folder that `load_model` reads."""
        save_model(self._model, folder)
