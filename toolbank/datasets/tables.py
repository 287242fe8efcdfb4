"""Read tab-separated tables, and the relevance labels in them."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import Tool
from toolbank.system.errors import InputError
from toolbank.system.files import reading


def read_table(
    path: Path, columns: Sequence[str], *, header: bool
) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table as pandas writes it, each with the number of its last line.

    `header` says that the first row names the columns. Empty lines are skipped.

    Raises:
        InputError: the file can't be read, has another header, or a row of another length.
    """
    csv.field_size_limit(sys.maxsize)
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t", strict=True)
            rows = ((reader.line_num, row) for row in reader if row)
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
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not a table of tab-separated values ({error})."
        ) from error


def read_labels(
    path: Path,
    columns: Sequence[str],
    queries: Collection[str],
    tools: Mapping[str, Tool],
    left_out: SkipCounter,
    *,
    header: bool,
) -> dict[str, list[str]]:
    """Read the names of the tools that are labelled as relevant, by query.

    The first column has the query's id, the last two the document's id and its label, above 0 if it
    is relevant. A document without a tool is named by its id.

    Raises:
        InputError: as `read_table` does, or a label is not a whole number.
    """
    used: dict[str, list[str]] = defaultdict(list)
    for number, (query, *_, document, label) in read_table(
        path, columns, header=header
    ):
        if not label.strip().removeprefix("-").isdecimal():
            raise InputError(
                f"{path}, line {number}: the {columns[-1]} {label!r} is not a whole number."
            )
        if query not in queries:
            left_out.add("label: of no query", f"{path.name}, line {number}")
        elif int(label) <= 0:
            left_out.add("label: 0", f"{path.name}, line {number}")
        else:
            tool = tools.get(document)
            used[query].append(tool.name if tool else f"document {document}")
    return used
