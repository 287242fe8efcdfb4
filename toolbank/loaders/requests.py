"""Requests to search for: JSONL with an id and a request a line."""

from pathlib import Path
from typing import Any

from toolbank.system.files import get_id, get_text, read_lines


def read_requests(path: Path) -> list[tuple[str, str]]:
    """Read (id, query) pairs; the id of a line without one is its number.

    Raises:
        InputError: the file can't be read, or has broken lines.
    """
    return read_lines(path, _parse_request)


def _parse_request(row: dict[str, Any], number: int) -> tuple[str, str]:
    return get_id(row, number), get_text(row, "query")
