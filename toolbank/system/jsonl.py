"""Reading JSONL files, with every broken line named."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from toolbank.system.errors import InputError
from toolbank.system.files import reading
from toolbank.system.numbers import count

_NAMED = 5

T = TypeVar("T")


def read_lines(path: Path, parse: Callable[[dict[str, Any], int], T]) -> list[T]:
    """Read a JSONL file of objects; `parse` takes an object and its line number.

    Empty lines are passed over. `parse` raises ValueError to say what is wrong with a line.

    Raises:
        InputError: the file can't be read, or lines are broken: their numbers and what is
            wrong with them.
    """
    return list(iterate_lines(path, parse))


def iterate_lines(path: Path, parse: Callable[[dict[str, Any], int], T]) -> Iterator[T]:
    """As `read_lines`, a line at a time: what is broken is told after the last one.

    Raises:
        InputError: as of `read_lines`.
    """
    named: list[str] = []
    broken = 0
    with reading(path), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = parse(_parse_object(line), number)
            except ValueError as error:
                broken += 1
                if broken <= _NAMED:
                    named.append(f"  line {number}: {error}")
                continue
            yield value
    if broken:
        if broken > _NAMED:
            named.append(f"  and {broken - _NAMED} more")
        lines = count(broken, "line is", "lines are")
        raise InputError("\n".join([f"{path}: {lines} broken.", *named]))


def get_text(row: dict[str, Any], key: str) -> str:
    """The string at a key; ValueError where it is missing, no string, or blank."""
    if key not in row:
        raise ValueError(f'no "{key}"')
    if not isinstance(row[key], str):
        raise ValueError(f'"{key}" is {_type(row[key])}, not a string')
    if not row[key].strip():
        raise ValueError(f'"{key}" is blank')
    return str(row[key])


def get_id(row: dict[str, Any], number: int) -> str:
    """The string or number at "id", or else the line number."""
    value = row.get("id", number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'"id" is {_type(value)}, not a string')
    return str(value)


def get_texts(row: dict[str, Any], key: str) -> tuple[str, ...]:
    """The list of strings at a key; ValueError where it is missing or something else."""
    if key not in row:
        raise ValueError(f'no "{key}"')
    values = row[key]
    if not isinstance(values, list):
        raise ValueError(f'"{key}" is {_type(values)}, not a list of strings')
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f'"{key}" holds {_type(value)}, where strings belong')
    return tuple(values)


def check_sound(value: Any) -> None:
    """Refuse what can't be written as JSON, as by half of a surrogate pair.

    Raises:
        ValueError: what is wrong with it.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half a character, not text") from error
    except TypeError as error:
        raise ValueError(f"not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("not JSON that can be read (nested too deep)") from error


def _parse_object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("not JSON that can be read (nested too deep)") from error
    # JSON can escape half of a surrogate pair, which no encoding can write again.
    check_sound(row)
    if not isinstance(row, dict):
        raise ValueError(f"{_type(row)}, not a JSON object")
    return row


def _type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")
