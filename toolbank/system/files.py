"""Write files atomically; read text, JSON and JSONL, and report what is wrong with them."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.text import decode_json, replace_surrogates


@contextmanager
def atomic_path(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path; if the block succeeds, fsync it and move it to `path`.

    Raises:
        ToolbankError: the folder can't be written to, or the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
    except OSError as error:
        raise write_error(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_error(path: Path, error: OSError) -> ToolbankError:
    """Make the error for a path that could not be written."""
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return InputError(
            f"{path}: cannot be written, because a file is where a folder has to be. Move it away, or "
            "use another folder."
        )
    remedy = "Make room" if error.errno == errno.ENOSPC else "Make it writable"
    return ToolbankError(
        f"{path}: cannot be written ({error.strerror or error}). {remedy}, or use another folder. The "
        "results so far are kept."
    )


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, as UTF-8.

    Raises:
        InputError: the text has a name of a file whose bytes are not UTF-8.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        start = text.rfind("\n", 0, error.start) + 1
        named = replace_surrogates(text[start:].partition("\n")[0].strip())
        raise InputError(
            f"{replace_surrogates(str(path))}: can't be written, because a file or folder has a name "
            f"that is not UTF-8 ({named}). Rename it."
        ) from error
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically, as indented JSON."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Write indented JSON, as in files."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


_LONGEST_LINE = 10_000_000


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report a file that the block can't read as an input error.

    Raises:
        InputError: the file is missing, unreadable, or not UTF-8.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}). Check that the file exists "
            "and that you may read it."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text ({error.reason}). Save it as UTF-8."
        ) from error


def read_text(path: Path) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises:
        InputError: the file is missing, unreadable, or not UTF-8.
    """
    with reading(path):
        return path.read_text(encoding="utf-8-sig")


def find_separator(path: Path) -> str:
    """Find the separator of a table: comma, semicolon or tab, whichever its first line has most.

    Raises:
        InputError: the file is missing or unreadable.
    """
    with reading(path), path.open(encoding="utf-8", errors="replace") as file:
        return max(",;\t", key=file.readline(_LONGEST_LINE).count)


def has_row_per_line(path: Path) -> bool:
    """Whether a file has a JSON object per line; those of BFCL are named .json.

    Raises:
        InputError: the file is missing or unreadable.
    """
    with reading(path), path.open("rb") as file:
        first, second = file.readline(_LONGEST_LINE), file.readline(_LONGEST_LINE)
    try:
        return second.lstrip()[:1] == b"{" and isinstance(decode_json(first), dict)
    except ValueError:
        return False


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: the file is missing, unreadable, or not JSON.
    """
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> Any:
    """Decode the JSON of a file.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return decode_json(text)
    except ValueError as error:
        raise InputError(
            f"{path}: not valid JSON ({error}). Repair it, or create it again."
        ) from error


def sha256_file(path: Path) -> str:
    """Compute the SHA-256 of a file, in hex.

    Raises:
        InputError: the file is missing or unreadable.
    """
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_MAX_SHOWN = 5

T = TypeVar("T")


def read_lines(path: Path, parse: Callable[[dict[str, Any], int], T]) -> list[T]:
    """Read a JSONL file of objects; `parse` takes an object and its line number.

    Empty lines are skipped. `parse` raises ValueError for a broken line.

    Raises:
        InputError: the file is unreadable, or lines are broken: their numbers, and what is wrong.
    """
    return list(iterate_lines(path, parse))


def iterate_lines(
    path: Path,
    parse: Callable[[Any, int], T],
    decode: Callable[[str], Any] | None = None,
) -> Iterator[T]:
    """Read as `read_lines` does, one line at a time; broken lines are reported at the end.

    `decode` reads the JSON of a line, by default an object.

    Raises:
        InputError: as `read_lines`.
    """
    named: list[str] = []
    broken = 0
    with reading(path), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = parse((decode or decode_object)(line), number)
            except ValueError as error:
                broken += 1
                if broken <= _MAX_SHOWN:
                    named.append(f"  line {number}: {error}")
                continue
            yield value
    if broken:
        if broken > _MAX_SHOWN:
            named.append(f"  and {broken - _MAX_SHOWN} more")
        lines = count(broken, "line is", "lines are")
        raise InputError("\n".join([f"{path}: {lines} broken.", *named]))


def get_text(row: dict[str, Any], key: str) -> str:
    """Return the string at a key; ValueError if it is missing, not a string, or blank."""
    if key not in row:
        raise ValueError(f'no "{key}"')
    if not isinstance(row[key], str):
        raise ValueError(f'"{key}" is {_type(row[key])}, not a string')
    if not row[key].strip():
        raise ValueError(f'"{key}" is blank')
    return str(row[key])


def get_id(row: dict[str, Any], number: int) -> str:
    """Return the string or number at "id", or else the line number."""
    value = row.get("id", number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'"id" is {_type(value)}, not a string')
    return str(value)


def get_texts(row: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return the list of strings at a key; ValueError if it is missing or something else."""
    if key not in row:
        raise ValueError(f'no "{key}"')
    values = row[key]
    if not isinstance(values, list):
        raise ValueError(f'"{key}" is {_type(values)}, not a list of strings')
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f'"{key}" holds {_type(value)}, not only strings')
    return tuple(values)


def check_sound(value: Any) -> None:
    """Check that a value can be written as JSON in UTF-8.

    Raises:
        ValueError: it cannot, such as for half of a surrogate pair.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half a character, not text") from error
    except TypeError as error:
        raise ValueError(f"not JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("not JSON (nested too deep)") from error


def decode_object(line: str) -> dict[str, Any]:
    """Read the JSON object of a line; raises ValueError if it has none."""
    row = _decode(line)
    if not isinstance(row, dict):
        raise ValueError(f"{_type(row)}, not a JSON object")
    return row


def decode_list(line: str) -> list[Any]:
    """Read the JSON list of a line; raises ValueError if it has none."""
    row = _decode(line)
    if not isinstance(row, list):
        raise ValueError(f"{_type(row)}, not a JSON list")
    return row


def _decode(line: str) -> Any:
    try:
        row = decode_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from error
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    # JSON can escape half of a surrogate pair, which no encoding can write.
    check_sound(row)
    return row


def _type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")
