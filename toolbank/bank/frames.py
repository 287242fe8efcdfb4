"""The files of a bank as polars frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import (
    Bank,
    Label,
    group_labels,
    read_labels,
    read_missing,
    read_profiles,
)
from toolbank.bank.files import make_frame, read_frame
from toolbank.bank.profile import QueryProfile
from toolbank.bank.records import Ask, AttemptRecord, Query, Record
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras
from toolbank.system.files import read_json

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class BankFrames:
    """The files of a bank as frames with the fields of `Tool`, `Query`, `Ask` and `AttemptRecord`.

    `parameters`, `output_schema`, `annotations` and `call` of tools are JSON texts. `attempts` has
    the result of each attempt of the generation. In `queries`, `tools` are the merged labels,
    `tools_first` the original ones, and `aside` is why the query is excluded, or "". The columns
    of `QueryProfile` follow, null without a profile by these labels. `labels` has a row per label.
    `missing` has the queries that no tool fits; those of them that a grader found a tool for are in
    `queries`. `info` is bank.json. Frames of files that a bank lacks are empty.
    """

    tools: pl.DataFrame
    queries: pl.DataFrame
    asks: pl.DataFrame
    attempts: pl.DataFrame
    labels: pl.DataFrame
    missing: pl.DataFrame
    info: Mapping[str, Any]


@naming_extras()
def load_bank(run: str | Path) -> BankFrames:
    """Read a bank from a run or from its own folder, as polars frames.

    The most frequent tools of the training queries:

        >>> bank = toolbank.load_bank("runs/quickstart")
        >>> train = bank.queries.filter(pl.col("split") == "train")
        >>> train["tools"].explode().value_counts(sort=True).head(3)

    Raises:
        InputError: there is no bank, or a file is damaged.
    """
    run = Path(run)
    folder = run if (run / "bank.json").is_file() else run / "bank"
    if not (folder / "bank.json").is_file():
        raise InputError(
            f"{run}: there is no bank in it. Give the folder of a run that has created one."
        )
    labels = read_labels(folder / "labels.parquet")
    missing, fitted = read_missing(folder)
    queries = read_frame(folder / "queries.parquet")
    if fitted:
        queries = queries.vstack(make_frame(Query, fitted))
    return BankFrames(
        tools=read_frame(folder / "tools.parquet"),
        queries=_add_profiles(
            _merge_labels(queries, labels),
            labels,
            folder,
        ),
        asks=_read_if_there(folder / "asks.parquet", Ask),
        attempts=_read_if_there(folder / "attempts.parquet", AttemptRecord),
        labels=make_frame(Label, labels),
        missing=make_frame(Query, missing),
        info=read_json(folder / "bank.json"),
    )


def _merge_labels(queries: pl.DataFrame, labels: Iterable[Label]) -> pl.DataFrame:
    """Add the merged labels, the original labels, and why a query is excluded."""
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


def _add_profiles(
    queries: pl.DataFrame, labels: Iterable[Label], folder: Path
) -> pl.DataFrame:
    """Add the classes of the queries and their measurements."""
    rows = queries.select("id", "query", tools="tools_first").iter_rows(named=True)
    bank = Bank(
        (),
        tuple(Query(**row) for row in rows),
        labels=tuple(labels),
        profiles=read_profiles(folder),
    )
    profiles = make_frame(QueryProfile, bank.classes.values())
    return queries.join(
        profiles.drop("key"), on="id", how="left", maintain_order="left"
    )


def _read_if_there(path: Path, kind: type[Record]) -> pl.DataFrame:
    return read_frame(path) if path.is_file() else make_frame(kind, ())
