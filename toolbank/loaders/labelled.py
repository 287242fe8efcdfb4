"""Labelled requests: JSONL with the request and the tools that it needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.records import Query
from toolbank.system.errors import InputError
from toolbank.system.jsonl import get_id, get_text, get_texts, read_lines


@dataclass(frozen=True)
class Labelled:
    """Requests with their tools, and how many lines need no tool and are left out."""

    name: str
    queries: tuple[Query, ...]
    refusals: int


def read_labelled(path: Path) -> Labelled:
    """Read a JSONL file whose lines have `query` and `tools`, and may have `id`.

    Its name is the file's stem. Other keys are passed over. A line without tools may have a
    blank request.

    Raises:
        InputError: the file can't be read, is empty, or has broken lines.
    """
    rows = read_lines(path, _parse)
    if not rows:
        raise InputError(f'{path}: no lines. Each should have "query" and "tools".')
    queries = tuple(query for query in rows if query.tools)
    return Labelled(path.stem, queries, len(rows) - len(queries))


def _parse(row: dict[str, Any], number: int) -> Query:
    tools = get_texts(row, "tools")
    is_blank = not tools and row.get("query") == ""
    query = "" if is_blank else get_text(row, "query")
    return Query(id=get_id(row, number), query=query, tools=tools)
