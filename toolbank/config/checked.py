"""JSON that the program left earlier, read as the types that it was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from toolbank.config.explain import first_problem
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

T = TypeVar("T")

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def find_adapter(kind: type[T]) -> TypeAdapter[T]:
    """What reads values of this type; made once, which takes longer than to read most files."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_checked(path: Path, kind: type[T]) -> T:
    """The content of a JSON file as a value of this type.

    Raises:
        InputError: the file is missing, damaged, or holds something else.
    """
    return check(read_json(path), kind, path)


def check(content: Any, kind: type[T], path: Path) -> T:
    """What was read of `path` as a value of this type.

    Raises:
        InputError: it is something else.
    """
    try:
        return find_adapter(kind).validate_python(content)
    except ValidationError as error:
        raise InputError(
            f"{path}: not the file that a run leaves ({first_problem(error)}). Delete it and "
            "run again."
        ) from error
