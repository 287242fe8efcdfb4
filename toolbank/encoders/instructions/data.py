"""The files of the Instruction Embedding Benchmark (arXiv 2409.19680)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from toolbank.system.errors import InputError
from toolbank.system.files import get_text, read_lines

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Labelled:
    """Instructions [n] with the labels of their tasks, as the benchmark has them."""

    instructions: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Pairs of instructions [n], and 1 for those of one task, else 0."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    same: tuple[int, ...]


def read_instructions(folder: Path) -> list[str]:
    """Those of eft_train_unsup.jsonl, each once.

    Raises:
        InputError: the file is missing, empty or has broken lines.
    """
    path = folder / "eft_train_unsup.jsonl"
    rows = _read(path, lambda row, _: get_text(row, "instruction"))
    return list(dict.fromkeys(rows))


def read_labelled(folder: Path) -> Labelled:
    """Those of eft_test.jsonl.

    Raises:
        InputError: the file is missing, empty or has broken lines.
    """

    def parse(row: dict[str, Any], _: int) -> tuple[str, str]:
        return get_text(row, "instruction"), get_text(row, "label")

    instructions, labels = zip(*_read(folder / "eft_test.jsonl", parse), strict=True)
    return Labelled(instructions, labels)


def read_pairs(folder: Path) -> Pairs:
    """Those of intention_similarity_test.jsonl.

    Raises:
        InputError: the file is missing, has broken lines, or has not both labels.
    """

    def parse(row: dict[str, Any], _: int) -> tuple[str, str, int]:
        if row.get("label") not in (0, 1):
            raise ValueError('"label" is not 0 or 1')
        left, right = get_text(row, "instruction1"), get_text(row, "instruction2")
        return left, right, int(row["label"])

    path = folder / "intention_similarity_test.jsonl"
    left, right, same = zip(*_read(path, parse), strict=True)
    if len(set(same)) < 2:
        raise InputError(f"{path}: needs pairs of both labels, 0 and 1.")
    return Pairs(left, right, same)


def _read(path: Path, parse: Callable[[dict[str, Any], int], _Row]) -> list[_Row]:
    rows = list(read_lines(path, parse))
    if not rows:
        raise InputError(f"{path}: there is nothing in it.")
    return rows
