"""The files of a packed finder, and which version of it is the one.

finder/finder.json                 which version counts; one rename switches it
finder/versions/VERSION/pack.json  what it holds, and every file with its SHA-256
                        tools.jsonl, offsets.npy, facets.json, called.json
                        retrievers/NAME/, calibration/NAME/
                        uncalibrated.json             why retrievers have no calibration
                        encoders/SHA256/              that retrievers share
                        requests.jsonl                with requests
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.system.errors import InputError
from toolbank.system.files import read_json, reading, sha256_file, write_json

LAYOUT = 2
_KIND = "packed finder"
RETRIEVERS, CALIBRATION = "retrievers", "calibration"
_UNCALIBRATED = "uncalibrated.json"
_MARK, _PACK = "finder.json", "pack.json"
AGAIN = "Pack it again: toolbank pack RUN --out DIR."
_EARLIER = (
    "an earlier version of toolbank packed this finder, and did not check whether the requests "
    f"that it calibrated on nearly repeat train requests. {AGAIN}"
)
_VERSION = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class Manifest:
    """What a version holds: labels of retrievers, the one to search with first; and its files.

    The files are all but the manifest's own, sorted, each with its SHA-256.
    """

    retrievers: tuple[str, ...]
    made_by: str
    files: tuple[tuple[str, str], ...]

    @property
    def version(self) -> str:
        """The name of the version: a hash of the retrievers' labels and the files."""
        said = repr((self.retrievers, self.files)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(said).hexdigest()[:16]


def is_packed(folder: Path) -> bool:
    """Whether a folder is a packed finder, of whatever layout, if only by what lies beside its mark.

    Raises:
        InputError: it may not be looked at, or what would say so can't be read and isn't ours.
    """
    try:
        mark = read_json(folder / _MARK)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return False
        if isinstance(error.__cause__, OSError) or not _has_versions(folder):
            raise
        return True
    is_ours = isinstance(mark, dict) and mark.get("kind") == _KIND
    return is_ours or _has_versions(folder)


def _has_versions(folder: Path) -> bool:
    versions = folder / "versions"
    return versions.is_dir() and any(
        is_version(one.name) and (one / _PACK).is_file() for one in versions.iterdir()
    )


def read_version(folder: Path) -> str:
    """The version of a packed finder that counts now.

    Raises:
        InputError: there is no packed finder, or it is one of another layout.
    """
    path = folder / _MARK
    try:
        mark = read_json(path)
    except InputError as error:
        if not isinstance(error.__cause__, OSError):
            raise InputError(f"{path}: damaged (no JSON). {AGAIN}") from error
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise InputError(
            f"{folder}: no packed finder. Make one: toolbank pack RUN --out DIR."
        ) from error
    if not isinstance(mark, dict) or mark.get("kind") != _KIND:
        raise InputError(f"{path}: no packed finder's. {AGAIN}")
    if mark.get("layout") != LAYOUT:
        raise InputError(
            f"{folder}: packed by another version of toolbank (layout {mark.get('layout')!r}, "
            f"and this one reads {LAYOUT}). {AGAIN}"
        )
    version = mark.get("version")
    if not isinstance(version, str) or not is_version(version):
        raise InputError(f"{path}: damaged (no version in it). {AGAIN}")
    return version


def is_version(name: str) -> bool:
    """Whether a name is one that a version can have."""
    return _VERSION.fullmatch(name) is not None


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
    """What a version holds, which its folder is named by.

    Raises:
        InputError: it is missing or damaged, or not of this version.
    """
    path = folder / _PACK
    content: Any = read_json(path)
    try:
        files = tuple((str(name), str(digest)) for name, digest in content["files"])
        retrievers = tuple(map(str, content["retrievers"]))
        manifest = Manifest(retrievers, str(content["made_by"]), files)
        if not retrievers:
            raise ValueError("no retriever")
        if manifest.version != folder.name:
            raise ValueError("of another version")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}). {AGAIN}") from error
    return manifest


def write_uncalibrated(folder: Path, reasons: Mapping[str, str]) -> None:
    """Write why retrievers of a version, by their labels, have no calibration."""
    write_json(folder / _UNCALIBRATED, dict(reasons))


def read_uncalibrated(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Why retrievers of a version have no calibration, by their labels.

    A version that toolbank 0.7.0 packed has none that counts: its calibrations may be learnt from
    requests that nearly repeat train requests.

    Raises:
        InputError: the file is damaged.
    """
    if all(name != _UNCALIBRATED for name, _ in manifest.files):
        return dict.fromkeys(manifest.retrievers, _EARLIER)
    reasons = read_json(folder / _UNCALIBRATED)
    if not isinstance(reasons, dict):
        raise InputError(f"{folder / _UNCALIBRATED}: damaged. {AGAIN}")
    return {str(label): str(reason) for label, reason in reasons.items()}


def check_list(folder: Path, manifest: Manifest) -> None:
    """Look whether a version has its files and no others.

    Raises:
        InputError: one is missing or too many.
    """
    with reading(folder):
        found = {
            (Path(where) / name).relative_to(folder).as_posix()
            for where, _, names in os.walk(folder, onerror=_raise)
            for name in names
        }
    listed = {name for name, _ in manifest.files}
    if missing := min(listed - found, default=""):
        raise InputError(f"{folder / missing}: missing. {AGAIN}")
    if other := min(found - listed - {_PACK}, default=""):
        raise InputError(f"{folder / other}: no file of the finder's. {AGAIN}")


def check_files(
    folder: Path, manifest: Manifest, wanted: Callable[[str], bool] = lambda _: True
) -> None:
    """Look whether the files of a version that are `wanted` are as they were written.

    Raises:
        InputError: one can't be read, or is another.
    """
    for name, digest in manifest.files:
        if wanted(name) and sha256_file(folder / name) != digest:
            raise InputError(
                f"{folder / name}: damaged (its SHA-256 is another). {AGAIN}"
            )


def _raise(error: OSError) -> None:
    raise error
