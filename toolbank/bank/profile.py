"""What a bank knows of each request: how many tools fit it, how it is worded, how hard it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from toolbank.bank.bank import Bank, QueryLabels, apply_labels
from toolbank.bank.files import read_records
from toolbank.bank.records import Query, Record

Fits = Literal["1", "2-3", "4+"]
Wording = Literal["tool-words", "paraphrase", "outcome"]
Difficulty = Literal["easy", "medium", "hard"]

AXES: Mapping[str, tuple[str, ...]] = {
    "fits": get_args(Fits),
    "wording": get_args(Wording),
    "difficulty": get_args(Difficulty),
}
"""The classes of requests, by column."""

FILE = "profile.parquet"


class QueryProfile(Record):
    """The classes of a request, and the measurements that they follow from.

    `key` is a hash of the request and its labels; a row with another key is out of date. `labels`
    says whose labels count. `n_fits` is the number of tools that are needed or an alternative.
    `overlap` and `named` are those of `toolbank.requests.profile.wording`. Ranks are those of the
    needed tools, in their order, from 1; 0 beyond the ranks that were searched. Without an encoder
    there are no `encoder_ranks`. `wording` is None if the bank has none of the needed tools.
    """

    id: str
    key: str
    labels: Literal["verified", "first"]
    n_fits: int
    fits: Fits
    overlap: float
    named: float
    wording: Wording | None
    bm25_ranks: tuple[int, ...]
    encoder_ranks: tuple[int, ...] = ()
    difficulty: Difficulty

    def classes(self) -> dict[str, str | None]:
        """Return the class of each axis."""
        return {axis: getattr(self, axis) for axis in AXES}


def label_key(query: Query, verified: QueryLabels | None) -> str:
    """Hash a request and its labels."""
    tools = apply_labels(query, verified).tools
    alternatives = verified.alternatives if verified else {}
    content = json.dumps([query.query, tools, alternatives], sort_keys=True)
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]


def read_profile(folder: Path, bank: Bank) -> dict[str, QueryProfile]:
    """Read the profiles in a bank's folder by request id; those that are out of date are skipped.

    Banks of earlier versions have none.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    keys = {q.id: label_key(q, bank.verified.get(q.id)) for q in bank.queries}
    rows = read_records(path, QueryProfile)
    return {row.id: row for row in rows if keys.get(row.id) == row.key}


def count_classes(profiles: Iterable[QueryProfile]) -> dict[str, dict[str, int]]:
    """Count requests by the classes of each axis."""
    rows = [profile.classes() for profile in profiles]
    return {
        axis: {name: sum(row[axis] == name for row in rows) for name in names}
        for axis, names in AXES.items()
    }
