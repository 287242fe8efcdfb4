"""What the polish made of the drafts."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from toolbank.judge.heuristic import read_features
from toolbank.quality.rows import take_mean

# "next" only where a clause begins with it: "next Monday" is no step.
_SEQUENCE = (
    r"(?i)\b(?:then|finally|lastly|afterwards?|after (?:that|which|this)|subsequently|step \d+)\b"
    r"|\b(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|next),"
    r"|(?:^|[.;!?]\s+|\band )next\b"
)


@dataclass(frozen=True)
class Steps:
    """Shares of n texts that read as a list of steps.

    `sequence`: with a word such as "then", "finally" or "step 2". `commands`: with two commands or
    more, such as "load ..., and sort ...".
    """

    n: int
    sequence: float
    commands: float


@dataclass(frozen=True)
class Polish:
    """Requests before and after: `changed` is the share of drafts of which another text was made.

    `changed` and `before` are None where there are no drafts; `after` is of all requests.
    """

    drafts: int
    changed: float | None
    before: Steps | None
    after: Steps


def measure_polish(requests: pl.DataFrame) -> Polish | None:
    """What the polish did; None where there is no request."""
    after = _measure_steps(requests["query"])
    if after is None:
        return None
    drafted = requests.filter(pl.col("draft").str.strip_chars() != "")
    other = pl.col("draft").str.strip_chars() != pl.col("query").str.strip_chars()
    changed = drafted.select(other.mean()).item()
    return Polish(drafted.height, changed, _measure_steps(drafted["draft"]), after)


def _measure_steps(texts: pl.Series) -> Steps | None:
    if texts.is_empty():
        return None
    commands = sum(read_features(text).chained_commands > 0 for text in texts)
    sequence = take_mean(texts.str.contains(_SEQUENCE))
    return Steps(len(texts), sequence, commands / len(texts))
