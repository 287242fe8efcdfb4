"""Requests that say the names of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from toolbank.bank.records import Tool
from toolbank.generate.text_checks import TextChecker
from toolbank.quality.texts import words_of, words_of_name


@dataclass(frozen=True)
class Leaks:
    """Shares of requests that say a name.

    `identifier`: one of any tool, written as no person would write a word. `name`: all words of
    the name of a tool that the request needs, beside each other and in its order; `word`, those
    of them where that name is one word, which may be a plain one, such as "sum".
    """

    identifier: float
    name: float
    word: float


def measure_leaks(requests: pl.DataFrame, tools: Sequence[Tool]) -> Leaks | None:
    """The leaks; None where there is no request, or no tool."""
    if requests.is_empty() or not tools:
        return None
    checker = TextChecker(tools)
    written = sum(
        checker.find_identifier(text) is not None for text in requests["query"]
    )
    names = words_of_name(pl.col("tools"))
    told = (
        requests.lazy()
        .with_row_index("row")
        .select("row", "tools", said=_spaced(words_of(pl.col("query"))))
        .explode("tools")
        .with_columns(phrase=_spaced(names), words=names.list.len())
        .filter(
            pl.col("words") > 0,
            pl.col("said").str.contains(pl.col("phrase"), literal=True),
        )
        .group_by("row")
        .agg(pl.col("words").max())
        .collect()
    )
    n = requests.height
    words = told.filter(pl.col("words") == 1).height
    return Leaks(written / n, told.height / n, words / n)


def _spaced(words: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit(" "), words.list.join(" "), pl.lit(" "))
