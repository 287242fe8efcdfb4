"""A bank as polars frames, to count in and to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_frame
from toolbank.bank.labels import Label, group_labels, read_labels
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

    The column `tools` of `queries` has the merged labels, `tools_first` those that a query was
    written with, and `aside` why it is set aside, "" if it is not. `labels` has a row a label, and
    none where nothing was verified.
    """

    tools: pl.DataFrame
    queries: pl.DataFrame
    asks: pl.DataFrame
    attempts: pl.DataFrame
    labels: pl.DataFrame
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
    labels = read_labels(folder / "labels.parquet")
    return BankFrames(
        tools=read_frame(folder / "tools.parquet"),
        queries=_merge_labels(read_frame(folder / "queries.parquet"), labels),
        asks=_read_if_there(folder / "asks.parquet", Ask),
        attempts=_read_if_there(folder / "attempts.parquet", AttemptRecord),
        labels=make_frame(Label, labels),
        info=read_json(folder / "bank.json"),
    )


def _merge_labels(queries: pl.DataFrame, labels: Iterable[Label]) -> pl.DataFrame:
    """The queries with their merged and first labels, and why any is set aside."""
    import polars as pl

    verified = group_labels(labels)
    found = [verified.get(query) for query in queries["id"]]
    first = queries["tools"]
    merged = [
        one.needed if one and one.needed else tools.to_list()
        for one, tools in zip(found, first, strict=True)
    ]
    return queries.with_columns(
        pl.Series("tools", merged, dtype=first.dtype),
        first.alias("tools_first"),
        pl.Series("aside", [one.aside if one else "" for one in found], pl.String),
    )


def _read_if_there(path: Path, kind: type[Record]) -> pl.DataFrame:
    return read_frame(path) if path.is_file() else make_frame(kind, ())
