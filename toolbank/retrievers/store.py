"""The files of a saved retriever: config.json, tools.json, vectors.safetensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from toolbank.config.base import Config
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, read_json, write_json

VECTORS = "vectors.safetensors"

_CONFIG, _TOOLS = "config.json", "tools.json"
_AGAIN = "Fit it again: toolbank train RUN."

C = TypeVar("C", bound=Config)
Arrays = dict[str, NDArray[np.generic]]


def save_head(folder: Path, config: Config, tools: Sequence[str]) -> None:
    """Write config.json and tools.json."""
    write_json(folder / _CONFIG, config.model_dump(mode="json"))
    write_json(folder / _TOOLS, list(tools))


def load_head(folder: Path, kind: type[C]) -> tuple[C, tuple[str, ...]]:
    """Read config.json and tools.json.

    Raises:
        InputError: a file is missing, damaged, or another method's.
    """
    content = read_json(folder / _CONFIG)
    try:
        config = kind.model_validate(content)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        )
        raise InputError(
            f"{folder / _CONFIG}: not a {kind.__name__} ({wrong}). {_AGAIN}"
        ) from error
    tools = read_json(folder / _TOOLS)
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
        raise InputError(f"{folder / _TOOLS}: not a list of names. {_AGAIN}")
    return config, tuple(tools)


def read_type(folder: Path) -> str:
    """The method whose retriever lies in a folder.

    Raises:
        InputError: config.json is missing, damaged, or says none.
    """
    content = read_json(folder / _CONFIG)
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise InputError(f'{folder / _CONFIG}: no "type" in it. {_AGAIN}')
    return str(content["type"])


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write named arrays to vectors.safetensors; same arrays, same bytes."""
    from safetensors.numpy import save_file

    with atomic_path(folder / VECTORS) as temporary:
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, temporary)


def load_arrays(folder: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> Arrays:
    """Read the named arrays of vectors.safetensors; None in a shape is any length.

    Raises:
        InputError: the file is missing or damaged, or an array is missing, misshapen, or has
            numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = folder / VECTORS
    try:
        arrays: Arrays = load_file(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file. {_AGAIN}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}). {_AGAIN}") from error
    for name, shape in shapes.items():
        if name not in arrays:
            raise InputError(f"{path}: {name} is missing. {_AGAIN}")
        found = arrays[name].shape
        if not _fits(found, shape):
            wanted = tuple("any" if length is None else length for length in shape)
            raise InputError(f"{path}: {name} is {found}, expected {wanted}. {_AGAIN}")
        finite = bool(np.isfinite(arrays[name]).all())
        demand(finite, path, f"{name} has numbers that are not finite")
    return {name: arrays[name] for name in shapes}


def save_texts(folder: Path, name: str, texts: Sequence[str]) -> None:
    """Write texts to <name>.json."""
    write_json(folder / f"{name}.json", list(texts))


def load_texts(folder: Path, name: str, count: int) -> tuple[str, ...]:
    """Read the `count` texts of <name>.json.

    Raises:
        InputError: the file is missing or damaged, or holds another number of texts.
    """
    path = folder / f"{name}.json"
    texts = read_json(path)
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    demand(is_list, path, "not a list of texts")
    demand(len(texts) == count, path, f"{len(texts)} texts, expected {count}")
    return tuple(texts)


def demand(holds: bool, path: Path, what: str) -> None:
    """Refuse a file that does not fit the others; `what` says what is wrong with it.

    Raises:
        InputError: it does not hold.
    """
    if not holds:
        raise InputError(f"{path}: damaged ({what}). {_AGAIN}")


def demand_width(given: int, saved: NDArray[np.float32], model: str) -> None:
    """Refuse an encoder whose vectors have another length than the saved ones [..., d].

    Raises:
        InputError: they have.
    """
    if given != saved.shape[-1]:
        raise InputError(
            f"The model {model} gives {given} numbers, the saved vectors have "
            f"{saved.shape[-1]}; it is not the one that they were made with. Name that one, or "
            "fit again: toolbank train RUN."
        )


def within(values: NDArray[Any], low: int, high: int) -> bool:
    """Whether all values are integers from `low` up to and without `high`."""
    return np.issubdtype(values.dtype, np.integer) and bool(
        ((values >= low) & (values < high)).all()
    )


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(found) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(found, shape, strict=True)
    )
