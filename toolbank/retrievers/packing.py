"""What a retriever is told when it is packed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Precision = Literal["fp32", "int8"]


@dataclass(frozen=True)
class Packing:
    """A pack in the making: its folder, and the precisions that networks are written in.

    What several retrievers share, as an encoder, lies in `root` once.
    """

    root: Path
    precisions: tuple[Precision, ...]
