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
    advise_to_install,
    telling_extras,
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
"""Files of which any tokenizer has one; its vocabulary is in it."""


def load_model(name: str) -> SentenceTransformer:
    """Read a model from a folder, from the hub's cache, or from the hub, in this order.

    Only what begins with ".", "/" or "~", or has a "/" in it and is there, is a folder. The
    default model is also found in the package of the extra `minilm`; of the name `toolbank` our
    adapter is merged into it. Weights are read from
    safetensors only, as float32 whatever they are kept as, and no code that comes with a model
    is run.

    Raises:
        InputError: there is no such model, or it can't be had or read.
    """
    model = _read_folder(find_model(name))
    if name == ADAPTED:
        body: Any = model[0]
        merge_adapter(body.auto_model)
    return model


def find_model(name: str) -> Path:
    """The folder of a model, found as `load_model` finds it, and downloaded if need be.

    Raises:
        InputError: there is no such model, it can't be had, or it has no tokenizer.
    """
    folder = demand_model(name)
    if folder is None:
        with _hub(name) as repository:
            folder = _download(repository)
        _demand_parts(folder)
    return folder


def demand_model(name: str) -> Path | None:
    """The folder of a model that is on this machine; None if it is to be downloaded.

    Raises:
        InputError: it is neither here nor to be had from the hub, or has not all its parts.
    """
    folder = find_here(name)
    if folder is None:
        with _hub(name) as repository:
            _ask_hub(repository)
    return folder


def find_here(name: str) -> Path | None:
    """The folder of a model that is on this machine; None if the hub has to be asked.

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
    """Whether a model's folder holds a vocabulary; transformers makes an empty one up if not."""
    return any(path for name in _TOKENIZERS for path in folder.rglob(name))


def save_model(model: SentenceTransformer, folder: Path) -> None:
    """Write a model to a folder that `load_model` reads; weights as safetensors."""
    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)


@contextmanager
def reading_model(folder: Path, remedy: str) -> Iterator[None]:
    """Tell what is wrong with a folder that is read; the libraries' notes are kept off.

    Raises:
        InputError: it can't be read, and `remedy` says what to do; or a library is missing.
    """
    with quiet():
        try:
            with telling_extras():
                yield
        except MissingLibraryError:
            raise
        # A folder can be wrong in any way; the libraries promise no error type.
        except Exception as error:
            raise InputError(
                f"{folder}: can't be read ({type(error).__name__}: {_first_line(error)}). "
                f"{remedy}"
            ) from error


def _demand_parts(folder: Path) -> None:
    if not has_tokenizer(folder):
        raise InputError(
            f"{folder}: it has no tokenizer (tokenizer.json, vocab.txt, or a sentencepiece "
            "model), without which every word is unknown to the model. Put it there, or give "
            "another folder."
        )
    if not any(folder.rglob("*.safetensors")):
        raise InputError(
            f"{folder}: it has no weights as safetensors; pickled weights are not read. Save "
            "them by save_pretrained, which writes safetensors, or give another folder."
        )


def _read_folder(folder: Path) -> SentenceTransformer:
    remedy = (
        "A sentence encoder needs config.json, a tokenizer, and weights as safetensors; pickled "
        "weights are not read."
    )
    with reading_model(folder, remedy):
        import torch
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )


@contextmanager
def _hub(name: str) -> Iterator[str]:
    """The repository of a model; what its hub says is told with a hint of a folder here."""
    from huggingface_hub.errors import RepositoryNotFoundError

    repository = hub_name(name)
    hint = f" For the folder here, say ./{name}." if Path(name).is_dir() else ""
    try:
        with telling_extras(), quiet():
            yield repository
    except MissingLibraryError:
        raise
    except RepositoryNotFoundError as error:
        raise InputError(
            f"encoder.model: no folder and no public model of the name {repository!r}. Check "
            f"the spelling, or give a folder that holds the model.{hint}"
        ) from error
    except InputError as error:
        raise InputError(f"{error}{hint}") from error
    # Which library speaks HTTP, and what it raises, changes between versions of the hub's.
    except Exception as error:
        reason = _first_line(error)
        raise InputError(f"{_unreachable(repository, reason)}{hint}") from error


def _ask_hub(repository: str) -> None:
    """Refuse what can't be downloaded, at once: a download retries for minutes.

    Raises:
        InputError: the hub is not to be asked.
        Exception: it has no such model, or can't be reached.
    """
    from huggingface_hub import HfApi

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise InputError(_unreachable(repository, "HF_HUB_OFFLINE is set"))
    HfApi().model_info(repository, timeout=_HUB_TIMEOUT_S)


def _download(repository: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(repository, allow_patterns=list(READ_PATTERNS)))


def _unreachable(repository: str, reason: str) -> str:
    message = f"encoder.model: {repository} is not on this machine, and the hub can't be reached"
    if is_default(repository):
        remedy = f"It comes as a package, too. {advise_to_install('minilm')}"
    else:
        remedy = "Give a folder that holds the model."
    return f"{message} ({reason}). {remedy}"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]


_LONGEST = 8192
"""Tokens of a text, where the model sets no bound."""


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
        """Unit vectors [n, dimension] of texts as they are."""
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
        """Write the model to a folder from which it can be read as any other."""
        save_model(self._model, folder)
