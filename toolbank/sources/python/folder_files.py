"""Packages, modules and files in a folder of Python source."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolbank.system.errors import InputError

_MOST_FILES = 20_000
NO_API = frozenset(
    {"tests", "test", "conftest", "setup", "docs", "examples", "benchmarks"}
)
"""Names of modules that are not part of a package's API."""

_NO_PACKAGES = NO_API | {"testing", "doc", "build", "noxfile", "tasks"}


def find_roots(folder: Path) -> list[tuple[Path, str]]:
    """Find the packages and modules in a folder: the parent folder and the name of each.

    The folder is a package, or contains packages and modules, or its src/ does.

    Raises:
        InputError: it is no folder, or contains neither packages nor modules.
    """
    if not folder.is_dir():
        is_there = "is no folder" if folder.exists() else "there is no such folder"
        raise InputError(
            f"{folder}: {is_there}. Give a folder of Python source, such as src/weather."
        )
    place = folder.resolve()
    if (place / "__init__.py").is_file() and place.name.isidentifier():
        return [(place.parent, place.name)]
    for home in (place / "src", place):
        roots = [(home, name) for name in _names(home)] if home.is_dir() else []
        if roots:
            return roots
    raise InputError(
        f"{folder}: has no Python package or module, nor has its src/. Give the folder with the "
        "__init__.py."
    )


def has_source(folder: Path) -> bool:
    """Whether a folder contains a package or a module."""
    try:
        return bool(find_roots(folder))
    except InputError:
        return False


def find_broken(home: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package or module that can't be parsed, with line and reason."""
    for path in (
        _files(home / name) if (home / name).is_dir() else [home / f"{name}.py"]
    ):
        try:
            ast.parse(path.read_text(encoding="utf-8-sig"), str(path))
        except UnicodeDecodeError:
            yield path, "not UTF-8 text; save it as UTF-8"
        except SyntaxError as error:
            line = f"line {error.lineno}: " if error.lineno else ""
            yield path, f"{line}{error.msg}"
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            yield path, str(error) or type(error).__name__


def hash_folder(folder: Path) -> str:
    """Return the SHA-256, in hex, of the names and contents of a folder's Python files.

    Raises:
        InputError: it is no folder.
    """
    if not folder.is_dir():
        find_roots(folder)
    return hash_files((path, folder.resolve()) for path in _files(folder.resolve()))


def hash_files(files: Iterable[tuple[Path, Path]]) -> str:
    """Return the SHA-256, in hex, of the names and contents of files; each has its base folder."""
    content = hashlib.sha256()
    for path, base in files:
        name = path.relative_to(base).as_posix()
        content.update(f"{name}\0{path.stat().st_size}\0".encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def _names(home: Path) -> Iterator[str]:
    for path in sorted(home.iterdir()):
        is_package = (path / "__init__.py").is_file()
        name = path.stem
        is_api = not name.startswith("_") and name not in _NO_PACKAGES
        if (is_package or path.suffix == ".py") and name.isidentifier() and is_api:
            yield name


def _files(folder: Path) -> list[Path]:
    """The .py files below a folder, sorted; links to folders are not followed."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        found += [Path(place, name) for name in sorted(files) if name.endswith(".py")]
        if len(found) > _MOST_FILES:
            raise InputError(
                f"{folder}: has over {_MOST_FILES:,} Python files. Give the package's own folder."
            )
    return found
