"""Labelled requests: JSONL with the request and the tools that it needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.records import Query
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines


@dataclass(frozen=True)
class Labelled:
    """Requests with their tools, and how many lines need no tool and are left out.

    `choices` are the ids of requests that come from a feedback log: somebody searched, and chose
    the tool among the hits.
    """

    name: str
    queries: tuple[Query, ...]
    refusals: int
    choices: frozenset[str] = frozenset()


def read_labelled(path: Path) -> Labelled:
    """Read a JSONL file whose lines have `query` and `tools`, and may have `id`.

    Its name is the file's stem. Other keys are passed over. A line without tools may have a
    blank request.

    Raises:
        InputError: the file can't be read, is empty, or has broken lines.
    """
    rows = read_lines(path, _parse_labelled)
    if not rows:
        raise InputError(f'{path}: no lines. Each should have "query" and "tools".')
    queries = tuple(query for query, _ in rows if query.tools)
    choices = frozenset(query.id for query, is_choice in rows if is_choice)
    return Labelled(path.stem, queries, len(rows) - len(queries), choices)


def _parse_labelled(row: dict[str, Any], number: int) -> tuple[Query, bool]:
    """A request, and whether it is a choice of a feedback log."""
    tools = get_texts(row, "tools")
    is_blank = not tools and row.get("query") == ""
    query = "" if is_blank else get_text(row, "query")
    return (
        Query(id=get_id(row, number), query=query, tools=tools),
        row.get("event") == "choice",
    )
