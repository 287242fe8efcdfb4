"""How far requests use the words of their tools' own texts."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from toolbank.quality.rows import take_mean
from toolbank.quality.texts import content_words, words_of, words_of_name

REQUESTS = "requests"
"""The kind of those that are no asks."""

_BINS = 10


@dataclass(frozen=True)
class Overlap:
    """Words that n texts of one kind of asking share with the tools that they need: means.

    `name`: of the words of these tools' names, the share that the text says. `own`: of the text's
    words, the share that these names and summaries have; `own_bins` counts texts by tenths of it.
    Words such as "the" do not count.
    """

    kind: str
    n: int
    name: float
    own: float
    own_bins: tuple[int, ...]


def measure_overlap(
    requests: pl.DataFrame, asks: pl.DataFrame, tools: pl.DataFrame
) -> list[Overlap]:
    """An entry for the requests, and for each kind of asks; none where no tool is known."""
    own = tools.select(
        "tool",
        name=content_words(words_of_name(pl.col("tool"))),
        gist=_plain(pl.col("gist")),
    )
    parts = {REQUESTS: requests}
    for kind in asks["kind"].unique().sort():
        parts[kind or "asks"] = asks.filter(pl.col("kind") == kind)
    found = (_measure(kind, rows, own) for kind, rows in parts.items())
    return [one for one in found if one is not None]


def _measure(kind: str, rows: pl.DataFrame, own: pl.DataFrame) -> Overlap | None:
    told = (
        rows.lazy()
        .with_row_index("row")
        .select("row", "tools", said=_plain(pl.col("query")))
        .explode("tools")
        .join(own.lazy(), left_on="tools", right_on="tool")
        .group_by("row")
        .agg(
            pl.col("said").first(),
            name=pl.col("name").explode().unique(),
            gist=pl.col("gist").explode(),
        )
        .filter(pl.col("said").list.len() > 0, pl.col("name").list.len() > 0)
        .select(name=_share("name", "said"), own=_share_of_both())
        .collect()
    )
    if told.is_empty():
        return None
    tenths = (told["own"] * _BINS + 1e-9).floor().clip(0, _BINS - 1).cast(pl.Int64)
    counts = dict(tenths.value_counts().iter_rows())
    return Overlap(
        kind,
        told.height,
        take_mean(told["name"]),
        take_mean(told["own"]),
        tuple(counts.get(place, 0) for place in range(_BINS)),
    )


def _plain(texts: pl.Expr) -> pl.Expr:
    return content_words(words_of(texts))


def _share(of: str, among: str) -> pl.Expr:
    both = pl.col(of).list.set_intersection(among)
    return both.list.len() / pl.col(of).list.len()


def _share_of_both() -> pl.Expr:
    tools = pl.col("name").list.concat("gist")
    both = pl.col("said").list.set_intersection(tools)
    return both.list.len() / pl.col("said").list.len()
