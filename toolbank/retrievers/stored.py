"""Declared state that is saved, loaded and checked: the arrays and texts of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, read_json, write_json

ARRAYS = "vectors.safetensors"
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "BOOL": "?",
}
AGAIN = "Fit it again: toolbank train RUN."


@dataclass(frozen=True)
class Array:
    """The declaration of an array.

    A `str` in the shape names a length; the same name means the same length. Values are finite and
    from `low` to `high`; integers are below `high`, which may also name a length.
    """

    shape: tuple[int | str, ...]
    dtype: type[np.generic]
    low: float = -np.inf
    high: float | str = np.inf


def floats(
    *shape: int | str,
    dtype: type[np.floating[Any]] = np.float32,
    low: float = -np.inf,
    high: float = np.inf,
) -> Array:
    """Floating-point numbers, such as `floats("tools", "width")`; without a shape, one."""
    return Array(shape, dtype, low, high)


def integers(*shape: int | str, low: int, high: int | str) -> Array:
    """Integers from `low` up to and without `high`, as are positions: `high="tools"`."""
    return Array(shape, np.int64, low, high)


def flags(*shape: int | str) -> Array:
    """Booleans."""
    return Array(shape, np.bool_)


Arrays = Mapping[str, Array]
Texts = Mapping[str, str]


class Stored:
    """Base of classes whose saved state is declared attributes.

    `arrays` are saved to one file, vectors.safetensors. Each of `texts` is a list in a JSON file of
    its name; its value names its length. Each of `parts`, which are `Stored` too, has a folder of
    its name.
    """

    arrays: ClassVar[Arrays] = {}
    texts: ClassVar[Texts] = {}
    parts: ClassVar[Mapping[str, type[Stored]]] = {}

    def save_state(self, folder: Path) -> None:
        """Write the declared attributes; the same values, the same bytes."""
        if self.arrays:
            save_arrays(
                folder,
                {
                    name: np.asarray(getattr(self, name), declared.dtype)
                    for name, declared in self.arrays.items()
                },
            )
        for name in self.texts:
            write_json(folder / f"{name}.json", list(getattr(self, name)))
        for name in self.parts:
            getattr(self, name).save_state(folder / name)

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read the declared attributes; known `lengths` are checked, new ones are added.

        Raises:
            InputError: a file is missing or damaged, or is not what is declared.
        """
        if self.arrays:
            found = load_arrays(folder, self.arrays, lengths)
            for name, array in found.items():
                setattr(self, name, array[()])
        for name, length in self.texts.items():
            texts = load_texts(folder / f"{name}.json")
            wanted = lengths.setdefault(length, len(texts))
            demand(
                len(texts) == wanted,
                folder / f"{name}.json",
                f"{len(texts)} texts, expected {wanted}",
            )
            setattr(self, name, texts)
        for name, kind in self.parts.items():
            part = kind()
            part.load_state(folder / name, {"tools": lengths["tools"]})
            setattr(self, name, part)

    def keep_rows(self, length: str, rows: NDArray[np.int64]) -> None:
        """Keep these entries, in this order, of everything with this first length.

        Attributes are replaced, so a copy keeps its own.
        """
        for name, declared in self.arrays.items():
            if declared.shape[:1] == (length,):
                setattr(self, name, getattr(self, name)[rows])
        for name, of in self.texts.items():
            if of == length:
                texts = getattr(self, name)
                setattr(self, name, tuple(texts[row] for row in rows))
        for name in self.parts:
            part = copy(getattr(self, name))
            part.keep_rows(length, rows)
            setattr(self, name, part)


def renumber(
    places: NDArray[np.int64], rows: NDArray[np.int64], n_before: int
) -> NDArray[np.int64]:
    """Map positions among `n_before` entries to positions among `rows`; -1 if removed.

    The -1 of padding stays.
    """
    new = np.full(n_before + 1, -1, np.int64)
    new[rows] = np.arange(len(rows))
    return new[places]


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write named arrays to vectors.safetensors; same arrays, same bytes."""
    from safetensors.numpy import save_file

    with atomic_path(folder / ARRAYS) as temporary:
        save_file({k: np.asarray(v, order="C") for k, v in arrays.items()}, temporary)


def load_arrays(
    folder: Path, declared: Mapping[str, Array], lengths: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """Load the declared arrays of vectors.safetensors; `lengths` as in `Stored.load_state`.

    They are memory-mapped and read-only: processes share them.

    Raises:
        InputError: the file is missing or damaged, or an array is not what is declared.
    """
    from safetensors import SafetensorError

    path = folder / ARRAYS
    try:
        arrays = _map_arrays(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file. {AGAIN}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}). {AGAIN}") from error
    for name, wanted in declared.items():
        demand(name in arrays, path, f"{name} is missing")
        _check_shape(path, name, arrays[name].shape, wanted, lengths)
        _check_values(path, name, arrays[name], wanted, lengths)
    return {
        name: arrays[name].astype(wanted.dtype, copy=False)
        for name, wanted in declared.items()
    }


def _map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import safe_open

    # safe_open validates the file, but does not return the offsets of the arrays.
    with safe_open(path, "numpy"):
        content = np.asarray(np.memmap(path, np.uint8, "r"))
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        values = content[first:last].view(_DTYPES[entry["dtype"]])
        arrays[name] = values.reshape(entry["shape"])
    return arrays


def demand(holds: bool, path: Path, what: str) -> None:
    """Refuse a damaged file unless a condition holds; `what` describes the damage.

    Raises:
        InputError: it does not hold.
    """
    if not holds:
        raise InputError(f"{path}: damaged ({what}). {AGAIN}")


def _check_shape(
    path: Path,
    name: str,
    found: tuple[int, ...],
    wanted: Array,
    lengths: dict[str, int],
) -> None:
    expected = [lengths.get(n, n) if isinstance(n, str) else n for n in wanted.shape]
    fits = len(found) == len(expected) and all(
        isinstance(length, str) or length == there
        for length, there in zip(expected, found, strict=True)
    )
    demand(fits, path, f"{name} is {list(found)}, expected {expected}")
    named = zip(wanted.shape, found, strict=True)
    lengths.update({name: there for name, there in named if isinstance(name, str)})


def _check_values(
    path: Path,
    name: str,
    values: NDArray[Any],
    wanted: Array,
    lengths: Mapping[str, int],
) -> None:
    kinds = (np.bool_, np.integer, np.floating)
    kind = next(kind for kind in kinds if issubclass(wanted.dtype, kind))
    demand(
        np.issubdtype(values.dtype, kind), path, f"{name} has values of another kind"
    )
    if kind is np.bool_ or not values.size:
        return
    # The minimum is NaN if any value is.
    least, most = values.min(), values.max()
    high = lengths[wanted.high] if isinstance(wanted.high, str) else wanted.high
    below = most < high if kind is np.integer else most <= high
    finite = np.isfinite(least) and np.isfinite(most)
    in_range = bool(finite and least >= wanted.low and below)
    demand(in_range, path, f"{name} has numbers out of their range")


def load_texts(path: Path) -> tuple[str, ...]:
    """Read a list of texts.

    Raises:
        InputError: the file is missing or damaged.
    """
    texts = read_json(path)
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    demand(is_list, path, "not a list of texts")
    return tuple(texts)
