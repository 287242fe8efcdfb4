"""A bank's requests and tools as the frames that figures are taken of."""

from __future__ import annotations

import polars as pl

from toolbank.bank.bank import Bank


def make_requests(bank: Bank) -> pl.DataFrame:
    """A row a request: query, draft, and its tools by their own names, each once, by name.

    A tool that the bank lacks keeps the name that it has.
    """
    return _make(
        [(query.query, query.draft, query.tools) for query in bank.queries], bank
    )


def make_asks(bank: Bank) -> pl.DataFrame:
    """A row an ask: its kind, and the columns of `make_requests`; what siblings share is one."""
    kinds = {ask.ask: ask.kind for ask in bank.asks}
    asked = bank.asked
    rows = _make([(query.query, "", query.tools) for query in asked], bank)
    of = [kinds[query.query] for query in asked]
    return rows.with_columns(kind=pl.Series(of, dtype=pl.String))


def make_tools(bank: Bank) -> pl.DataFrame:
    """A row a tool: its name, and the text that stands for it, its summary or else description."""
    return pl.DataFrame(
        {
            "tool": bank.tool_names,
            "gist": [tool.summary or tool.description for tool in bank.tools],
        },
        schema={"tool": pl.String, "gist": pl.String},
    )


def take_mean(values: pl.Series) -> float:
    """The mean of numbers, or the share of those that are true, of a series that has some."""
    return float(values.cast(pl.Float64).to_numpy().mean())


def _make(rows: list[tuple[str, str, tuple[str, ...]]], bank: Bank) -> pl.DataFrame:
    names = bank.tool_names

    def own(name: str) -> str:
        return names[bank.index[name]] if name in bank.index else name

    return pl.DataFrame(
        [
            (text, draft, sorted({own(name) for name in tools}))
            for text, draft, tools in rows
        ],
        schema={"query": pl.String, "draft": pl.String, "tools": pl.List(pl.String)},
        orient="row",
    )
