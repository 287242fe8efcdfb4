"""The files of a packed finder, and which version of it is the one.

finder/finder.json                 which version counts; one rename switches it
finder/versions/VERSION/pack.json  what it holds, and every file with its SHA-256
                        tools.jsonl, offsets.npy, facets.json, called.json
                        retrievers/NAME/
                        requests.jsonl                with requests
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json

LAYOUT = 1
_KIND = "packed finder"
CALIBRATION = "calibration"
_MARK, _PACK = "finder.json", "pack.json"
AGAIN = "Pack it again: toolbank pack RUN --out DIR."


@dataclass(frozen=True)
class Manifest:
    """What a version holds: labels of retrievers, the one to search with first."""

    retrievers: tuple[str, ...]
    made_by: str
    files: tuple[tuple[str, str], ...]


def is_packed(folder: Path) -> bool:
    """Whether a folder is a packed finder, of whatever layout."""
    try:
        mark = read_json(folder / _MARK)
    except InputError:
        return False
    return isinstance(mark, dict) and mark.get("kind") == _KIND


def read_version(folder: Path) -> str:
    """The version of a packed finder that counts now.

    Raises:
        InputError: there is no packed finder, or it is one of another layout.
    """
    path = folder / _MARK
    mark = read_json(path)
    if not isinstance(mark, dict) or mark.get("kind") != _KIND:
        raise InputError(
            f"{folder}: no packed finder. Make one: toolbank pack RUN --out DIR."
        )
    if mark.get("layout") != LAYOUT:
        raise InputError(
            f"{folder}: packed by another version of toolbank (layout {mark.get('layout')!r}, "
            f"and this one reads {LAYOUT}). {AGAIN}"
        )
    version = mark.get("version")
    if not isinstance(version, str) or not re.fullmatch("[0-9a-f]{16}", version):
        raise InputError(f"{path}: damaged (no version in it). {AGAIN}")
    return version


def write_version(folder: Path, version: str) -> None:
    """Have a version count from now on."""
    mark = {"layout": LAYOUT, "kind": _KIND, "version": version}
    write_json(folder / _MARK, mark)


def version_folder(folder: Path, version: str) -> Path:
    """Where a version lies."""
    return folder / "versions" / version


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write what a version holds."""
    content = {
        "retrievers": manifest.retrievers,
        "made_by": manifest.made_by,
        "files": manifest.files,
    }
    write_json(folder / _PACK, content)


def read_manifest(folder: Path) -> Manifest:
    """What a version holds.

    Raises:
        InputError: it is missing or damaged.
    """
    path = folder / _PACK
    content: Any = read_json(path)
    try:
        files = tuple((str(name), str(digest)) for name, digest in content["files"])
        retrievers = tuple(map(str, content["retrievers"]))
        made_by = str(content["made_by"])
        if not retrievers:
            raise ValueError("no retriever")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}). {AGAIN}") from error
    return Manifest(retrievers, made_by, files)


def check_files(folder: Path, manifest: Manifest) -> None:
    """Look whether every file of a version is as it was written.

    Raises:
        InputError: one is missing, or is another.
    """
    for name, digest in manifest.files:
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path}: missing. {AGAIN}")
        if sha256_file(path) != digest:
            raise InputError(f"{path}: damaged (its SHA-256 is another). {AGAIN}")
