"""The requests that a bank's are held against, from wherever they lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.files import read_queries
from toolbank.bank.records import Query
from toolbank.loaders import DATASETS
from toolbank.loaders.detect import find_format
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines
from toolbank.system.outputs import is_run_folder

_BANK = Path("bank", "queries.parquet")


@dataclass(frozen=True)
class Side:
    """One text of a pair, with its id and the tools it needs where they are known."""

    id: str
    text: str
    tools: tuple[str, ...] = ()


def read_sides(place: Path) -> list[Side]:
    """Read the requests of a run, of a dataset of any format, or of a JSONL file.

    A line of a file has "query", and "id" and "tools" if you like.

    Raises:
        InputError: a file can't be read, holds no request, or has broken lines.
    """
    if is_run_folder(place):
        if not (place / _BANK).is_file():
            raise InputError(
                f"{place}: a run that has no requests yet. Run it first, or give another place."
            )
        sides = make_sides(read_queries(place / _BANK))
    elif place.is_dir():
        config = find_format(place)
        dataset = DATASETS.find(config.type, "judge.against").read(config)
        sides = make_sides(dataset.queries)
    else:
        sides = read_lines(place, _parse)
    if not sides:
        raise InputError(f'{place}: no requests in it. Each line needs a "query".')
    return sides


def find_files(place: Path) -> tuple[Path, ...]:
    """The files that `read_sides` reads.

    Raises:
        InputError: there is a folder that holds the files of no format.
    """
    if is_run_folder(place):
        return (place / _BANK,)
    if place.is_dir():
        config = find_format(place)
        return DATASETS.find(config.type, "judge.against").find_files(config)
    return (place,)


def make_sides(queries: Iterable[Query]) -> list[Side]:
    """Queries as sides of pairs."""
    return [Side(query.id, query.query, query.tools) for query in queries]


def _parse(row: dict[str, Any], number: int) -> Side:
    tools = () if row.get("tools") is None else get_texts(row, "tools")
    return Side(get_id(row, number), get_text(row, "query"), tools)
