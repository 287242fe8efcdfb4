"""A bank as polars frames, to count in and to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_frame
from toolbank.bank.record import Record
from toolbank.bank.records import Ask, AttemptRecord
from toolbank.bank.schema import make_frame
from toolbank.system.errors import InputError
from toolbank.system.extras import telling_extras
from toolbank.system.files import read_json

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class BankFrames:
    """The rows of a bank's files, a column a field of `Tool`, `Query`, `Ask`, `AttemptRecord`.

    `parameters`, `output_schema`, `annotations` and `call` of tools are JSON as text. `asks` has no
    rows where none were written. `attempts` says how each attempt of the generation ended; it has
    no rows where the bank is of another's dataset. `info` is bank.json.
    """

    tools: pl.DataFrame
    queries: pl.DataFrame
    asks: pl.DataFrame
    attempts: pl.DataFrame
    info: Mapping[str, Any]


@telling_extras()
def load_bank(run: str | Path) -> BankFrames:
    """Read the bank of a run, or a bank's own folder, as polars frames.

    Which tools are asked for most, by queries to train on:

        >>> bank = toolbank.load_bank("runs/quickstart")
        >>> train = bank.queries.filter(pl.col("split") == "train")
        >>> train["tools"].explode().value_counts(sort=True).head(3)

    Raises:
        InputError: there is no bank, or a file of it is damaged.
    """
    run = Path(run)
    folder = run if (run / "bank.json").is_file() else run / "bank"
    if not (folder / "bank.json").is_file():
        raise InputError(
            f"{run}: no bank in it. Give the folder of a run that has made one."
        )
    return BankFrames(
        tools=read_frame(folder / "tools.parquet"),
        queries=read_frame(folder / "queries.parquet"),
        asks=_read_if_there(folder / "asks.parquet", Ask),
        attempts=_read_if_there(folder / "attempts.parquet", AttemptRecord),
        info=read_json(folder / "bank.json"),
    )


def _read_if_there(path: Path, kind: type[Record]) -> pl.DataFrame:
    return read_frame(path) if path.is_file() else make_frame(kind, ())
