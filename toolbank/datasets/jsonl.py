"""Plain JSONL datasets, files of labelled requests, and tab-separated tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import parse_tool
from toolbank.bank.records import Ask, Provenance, Query, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLIT_NAMES, SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import read_cells, read_rows, split_names
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines


class JsonlConfig(DatasetConfig):
    """A folder with tools.jsonl and queries.jsonl, and optionally asks.jsonl."""

    type: Literal["jsonl"]
    test: str = Field(
        default="test", min_length=1, description="name of the test split"
    )


def read_jsonl(config: JsonlConfig) -> Dataset:
    """Read a folder with tools.jsonl and queries.jsonl, and asks.jsonl if it is there.

    A tool is as of `parse_tool`. A query has `query` and `tools`, an empty list if no tool fits it,
    and may have `id`, `split`, `draft`, `domain`, `provenance`, and `explanation` or a list of
    `steps`. An ask has `tool` and `ask`, and may have `kind` and `provenance`. Other keys are
    ignored. Queries of other splits than train, validation and `config.test` are skipped, and so are
    the searches and calls of a feedback log.

    Raises:
        InputError: a file can't be read, or has broken lines.
    """
    left_out = SkipCounter()
    tools = read_tool_lines(config.path / "tools.jsonl")
    queries = []
    rows = read_lines(config.path / "queries.jsonl", _parse_query)
    splits = {name: split for name, split in SPLITS.items() if name != "test"}
    splits[config.test] = "test"
    for query, name, event in rows:
        split = splits.get(name)
        if event in _UNLABELLED and not query.tools:
            left_out.add(f"query: a {event} of a feedback log", query.id)
        elif name and split is None:
            left_out.add(f"query: of the split {name!r}", query.id)
        else:
            queries.append(query.model_copy(update={"split": split}))
    given = {name for _, name, _ in rows}
    if rows and (not queries or config.test not in {"test", *given}):
        names = ", ".join(repr(name) for name in sorted(given - {""})) or "none"
        raise InputError(
            f"{config.path / 'queries.jsonl'}: no query of the split {config.test!r} (found: "
            f"{names}). Set dataset.test to the name of the test split. {SPLIT_NAMES}"
        )
    *_, last = jsonl_files(config)
    asks = read_lines(last, _parse_ask) if last.name == "asks.jsonl" else ()
    missing = [query for query in queries if not query.tools]
    queries = [query for query in queries if query.tools]
    return gather(tools, queries, left_out, asks, missing=missing)


def jsonl_files(config: JsonlConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    asks = config.path / "asks.jsonl"
    required = config.path / "tools.jsonl", config.path / "queries.jsonl"
    return (*required, asks) if asks.is_file() else required


def read_tool_lines(path: Path) -> list[Tool]:
    """Read a tools.jsonl.

    Raises:
        InputError: it can't be read, or has broken lines.
    """
    return read_lines(path, lambda row, _: parse_tool(row))


def read_query_lines(path: Path) -> list[Query]:
    """Read a file of the form of queries.jsonl; skip blank queries and those without tools.

    Raises:
        InputError: it can't be read, or has broken lines.
    """
    rows = read_lines(path, _parse_query)
    return [query for query, *_ in rows if query.tools and query.query.strip()]


_EMPTY = "empty cell"
_UNLABELLED = ("search", "call", _EMPTY)
"""Events of a feedback log that do not say which tools fit; so does an empty cell of a table."""


def _parse_query(row: dict[str, Any], number: int) -> tuple[Query, str, str]:
    """A query without its split, the split's name, and the event of a log; "" where it has none."""
    text = row.get("query")
    if not isinstance(text, str):
        get_text(row, "query")
    split = row.get("split") or ""
    if not isinstance(split, str):
        raise ValueError('"split" is not a string')
    steps = row.get("steps")
    explanation = row.get("explanation") or (
        "\n".join(map(str, steps)) if isinstance(steps, list) else ""
    )
    query = Query(
        id=get_id(row, number) if "id" in row else f"line-{number}",
        query=str(text),
        draft=str(row.get("draft") or ""),
        tools=get_texts(row, "tools"),
        explanation=str(explanation),
        domain=str(row.get("domain") or ""),
        provenance=_parse_provenance(row),
    )
    return query, split, str(row.get("event") or "")


def _parse_ask(row: dict[str, Any], _: int) -> Ask:
    return Ask(
        tool=get_text(row, "tool"),
        kind=str(row.get("kind") or ""),
        ask=get_text(row, "ask"),
        provenance=_parse_provenance(row),
    )


def _parse_provenance(row: dict[str, Any]) -> Provenance | None:
    """The provenance of an export; other content of this key is ignored."""
    try:
        return Provenance.model_validate(row.get("provenance"))
    except ValidationError:
        return None


KIND = DatasetKind(JsonlConfig, read_jsonl, jsonl_files)


@dataclass(frozen=True)
class LabelledRequests:
    """Requests with their tools, and those that no tool fits (`missing`).

    `refusals` counts the skipped lines without tools: those of a feedback log that are no choices,
    blank requests, empty cells, and requests that have tools in another line.
    `choices` are the ids of requests of a feedback log, whose users chose the tool among the hits.
    """

    name: str
    queries: tuple[Query, ...]
    refusals: int
    choices: frozenset[str] = frozenset()
    missing: tuple[Query, ...] = ()


def read_labelled(path: Path) -> LabelledRequests:
    """Read a file whose lines or rows have `query` and `tools`, and may have `id`.

    It is JSONL, or a table as the dataset format `table` reads it. Its name is the file's stem.
    Other keys are ignored. An empty list of tools says that no tool fits the request, except in the
    searches and calls of a feedback log. A line without tools may have a blank request.

    Raises:
        InputError: the file can't be read, is empty, or has broken lines.
    """
    if path.suffix in (".csv", ".tsv", ".parquet"):
        rows = list(_read_labelled_table(path))
    else:
        rows = read_lines(path, _parse_labelled)
    if not rows:
        raise InputError(f'{path}: no lines. Each should have "query" and "tools".')
    queries = tuple(query for query, _ in rows if query.tools)
    choices = frozenset(query.id for query, event in rows if event == "choice")
    served = {"", *(query.query for query in queries)}
    missing = tuple(
        query
        for query, event in rows
        if not query.tools
        and query.query.strip() not in served
        and event not in _UNLABELLED
    )
    refusals = len(rows) - len(queries) - len(missing)
    return LabelledRequests(path.stem, queries, refusals, choices, missing)


def _read_labelled_table(path: Path) -> Iterator[tuple[Query, str]]:
    for number, (place, row) in enumerate(read_rows(path), 1):
        is_empty = (cell := row.get("tools")) in (None, "")
        names = [] if is_empty else split_names(cell)
        fields = {key: value for key, value in row.items() if key != "id" or value}
        fields |= {"event": _EMPTY} if is_empty else {}
        try:
            yield _parse_labelled({**fields, "tools": names}, number)
        except ValueError as error:
            raise InputError(f"{place}: {error}.") from error


def _parse_labelled(row: dict[str, Any], number: int) -> tuple[Query, str]:
    """A request, and the event of a feedback log that it is of; "" in other files."""
    tools = get_texts(row, "tools")
    is_blank = not tools and row.get("query") == ""
    query = "" if is_blank else get_text(row, "query")
    return (
        Query(id=get_id(row, number), query=query, tools=tools),
        str(row.get("event") or ""),
    )


def read_requests(path: Path) -> list[tuple[str, str]]:
    """Read (id, query) pairs; the id of a line without one is its number.

    Raises:
        InputError: the file can't be read, or has broken lines.
    """
    return read_lines(path, lambda row, n: (get_id(row, n), get_text(row, "query")))


def read_table(
    path: Path, columns: Sequence[str], *, header: bool
) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table as pandas writes it, each with the number of its last line.

    `header` says that the first row names the columns. Empty lines are skipped.

    Raises:
        InputError: the file can't be read, has another header, or a row of another length.
    """
    rows = read_cells(path, "\t")
    if header:
        number, names = next(rows, (1, []))
        if names != list(columns):
            raise InputError(
                f"{path}, line {number}: the columns are {', '.join(names) or 'missing'}; "
                f"expected {', '.join(columns)}, separated by tabs."
            )
    for number, row in rows:
        if len(row) != len(columns):
            raise InputError(
                f"{path}, line {number}: {len(row)} columns, not {len(columns)} "
                f"({', '.join(columns)}), separated by tabs."
            )
        yield number, row


def read_relevance(
    rows: Iterable[tuple[str, Sequence[Any]]],
    queries: Collection[str],
    tools: Mapping[str, Tool],
    left_out: SkipCounter,
) -> dict[str, list[str]]:
    """Read the names of the tools that are labelled as relevant, by query.

    A row has its place, and the query's id, the document's id and its label, above 0 if it is
    relevant. A document without a tool is named by its id.

    Raises:
        InputError: a label is not a number.
    """
    used: dict[str, list[str]] = defaultdict(list)
    for place, (query, document, label) in rows:
        try:
            is_relevant = float(label) > 0
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{place}: the label {label!r} is not a number."
            ) from error
        if str(query) not in queries:
            left_out.add("label: of no query", place)
        elif not is_relevant:
            left_out.add("label: 0", place)
        else:
            tool = tools.get(str(document))
            used[str(query)].append(tool.name if tool else f"document {document}")
    return used
