"""Reading tab-separated tables, with every broken line named."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolbank.system.errors import InputError
from toolbank.system.files import reading


def read_table(
    path: Path, columns: Sequence[str], *, header: bool
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table as pandas writes it, each with the number of its last line.

    `header` says that the first row names the columns. Empty lines are passed over.

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
                        f"expected {', '.join(columns)}, with tabs between them."
                    )
            for number, row in rows:
                if len(row) != len(columns):
                    raise InputError(
                        f"{path}, line {number}: {len(row)} columns, not {len(columns)} "
                        f"({', '.join(columns)}) with tabs between them."
                    )
                yield number, row
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not a table of tab-separated values ({error})."
        ) from error
