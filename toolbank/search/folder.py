"""The folder of a finder: several versions, one of which is current; every file is hashed.

finder/finder.json                 names the current version; one rename switches it
finder/versions/VERSION/pack.json  the content, and every file with its SHA-256
                        tools.jsonl, offsets.npy, facets.json, called.json
                        retrievers/NAME/, calibration/NAME/
                        uncalibrated.json  packed only: why retrievers have no calibration
                        encoders/SHA256/   packed only: shared by retrievers
                        requests.jsonl     with requests
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import (
    read_json,
    reading,
    sha256_file,
    write_error,
    write_json,
)
from toolbank.system.folders import (
    Files,
    FolderKind,
    check_folder,
    claim_folder,
    hash_files,
    refuse_foreign,
    set_aside,
)
from toolbank.system.version import __version__

LAYOUT = 2
_KIND = "packed finder"
_SAVED = {"layout": 1, "kind": "finder"}
RETRIEVERS, CALIBRATION, UNCALIBRATED = "retrievers", "calibration", "uncalibrated.json"
_MARK, _PACK, _NEW, _LOCK = "finder.json", "pack.json", ".new-", ".lock"
AGAIN = "Pack it again: toolbank pack RUN --out DIR."
_EARLIER = (
    "an earlier version of toolbank packed this finder, and did not check whether the requests "
    f"that it calibrated on nearly repeat train requests. {AGAIN}"
)
_VERSION = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class Manifest:
    """The content of a version: the labels of retrievers, the default one first, and the files.

    The files are sorted, each with its SHA-256; the manifest itself is not among them. In a version
    that is not `packed`, retrievers are as they were fitted.
    """

    retrievers: tuple[str, ...]
    made_by: str
    files: tuple[tuple[str, str], ...]
    packed: bool = True

    @property
    def version(self) -> str:
        """The name of the version: a hash of the labels and the files."""
        said = repr((self.retrievers, self.files)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(said).hexdigest()[:16]


def is_finder(folder: Path) -> bool:
    """Check whether a folder is that of a finder of any layout, by its mark or its versions.

    Raises:
        InputError: the folder or its mark can't be read.
    """
    mark = _read_mark(folder)
    return mark is not None and (
        mark.get("kind") == _KIND or _is_former(mark) or _has_versions(folder)
    )


def is_former_save(folder: Path) -> bool:
    """Check whether an earlier toolbank saved a finder there, without versions."""
    return _is_former(_read_mark(folder) or {})


def _is_former(mark: Mapping[str, Any]) -> bool:
    return mark.items() >= _SAVED.items()


def _has_versions(folder: Path) -> bool:
    versions = folder / "versions"
    return versions.is_dir() and any(
        is_version(one.name) and (one / _PACK).is_file() for one in versions.iterdir()
    )


def _read_mark(folder: Path) -> dict[str, Any] | None:
    """Read finder.json: None if there is none, and {} if it is damaged.

    Raises:
        InputError: it can't be read.
    """
    try:
        mark = read_json(folder / _MARK)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        if isinstance(error.__cause__, OSError):
            raise
        return {}
    return mark if isinstance(mark, dict) else {}


def read_version(folder: Path) -> str:
    """Read the current version of a finder.

    Raises:
        InputError: there is no finder, or it has another layout.
    """
    mark = _read_mark(folder)
    if mark is None:
        raise InputError(
            f"{folder}: no packed finder. Make one: toolbank pack RUN --out DIR."
        )
    if mark.get("kind") == _KIND and mark.get("layout") != LAYOUT:
        raise InputError(
            f"{folder}: packed by another version of toolbank (layout {mark.get('layout')!r}, "
            f"and this one reads {LAYOUT}). {AGAIN}"
        )
    version = str(mark.get("version"))
    if mark.get("kind") != _KIND or not is_version(version):
        raise InputError(
            f"{folder / _MARK}: damaged, or not that of a packed finder. {AGAIN}"
        )
    return version


def is_version(name: str) -> bool:
    """Check whether a name can be that of a version."""
    return _VERSION.fullmatch(name) is not None


def read_source(folder: Path) -> str:
    """Read what the current version was made from, as given to `write_version`; else ""."""
    with suppress(InputError, AttributeError):
        return str(read_json(folder / _MARK).get("source", ""))
    return ""


def version_folder(folder: Path, version: str) -> Path:
    """Return the folder of a version."""
    return folder / "versions" / version


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a version."""
    content = asdict(manifest)
    if manifest.packed:
        del content["packed"]
    write_json(folder / _PACK, content)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a version, after which its folder is named.

    Raises:
        InputError: it is missing or damaged, or not of this version.
    """
    path = folder / _PACK
    try:
        manifest = TypeAdapter(Manifest).validate_python(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: damaged. {AGAIN}") from error
    if manifest.version != folder.name:
        raise InputError(f"{path}: damaged (of another version). {AGAIN}")
    return manifest


def read_uncalibrated(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Read why retrievers of a packed version have no calibration, by their labels.

    Calibrations of toolbank 0.7.0 are ignored: they may be learned from requests that nearly repeat
    train requests.
    """
    if not manifest.packed:
        return {}
    if all(name != UNCALIBRATED for name, _ in manifest.files):
        return dict.fromkeys(manifest.retrievers, _EARLIER)
    return dict(read_json(folder / UNCALIBRATED))


def check_version(
    folder: Path, manifest: Manifest, wanted: Callable[[str], bool] = lambda _: True
) -> None:
    """Check that a version has its files and no others, and that the `wanted` ones are unchanged.

    Raises:
        InputError: a file is missing, has changed, or does not belong there.
    """
    found, listed = _list_files(folder), dict(manifest.files)
    if missing := min(listed.keys() - found, default=""):
        raise InputError(f"{folder / missing}: missing. {AGAIN}")
    if other := min(found - listed.keys(), default=""):
        raise InputError(f"{folder / other}: not a file of the finder. {AGAIN}")
    for name, digest in manifest.files:
        if wanted(name) and sha256_file(folder / name) != digest:
            raise InputError(
                f"{folder / name}: damaged (its SHA-256 has changed). {AGAIN}"
            )


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Report what the block can't read as damage of a finder.

    Raises:
        InputError: the content is not what toolbank writes.
    """
    try:
        yield
    except (
        AttributeError,
        FileNotFoundError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{path}: damaged ({why}). {AGAIN}") from error


def _list_files(folder: Path) -> set[str]:
    """List all files of a version but its manifest."""
    with reading(folder):
        found = {
            (Path(where) / name).relative_to(folder).as_posix()
            for where, _, names in os.walk(folder, onerror=_raise)
            for name in names
        }
    return found - {_PACK}


def _raise(error: OSError) -> None:
    raise error


def _recognize(folder: Path) -> Files | None:
    """Recognize a finder of an earlier version, or the rest of a first pack that failed."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    is_ours = is_finder(folder) and not is_former_save(folder)
    return {} if is_ours or all(map(_is_left_alone, folder.iterdir())) else None


FINDER = FolderKind("finder", recognize=_recognize)


def check_free(folder: Path, kind: FolderKind = FINDER) -> None:
    """Check that a finder can be written to a folder.

    Raises:
        InputError: as `check_folder`, or it has a finder.json of another program.
    """
    check_folder(folder, kind)
    if not is_finder(folder):
        refuse_foreign(folder, kind, [_MARK], {})


def write_version(
    folder: Path,
    fill: Callable[[Path], tuple[str, ...]],
    *,
    packed: bool,
    source: str = "",
) -> str:
    """Write a new version, and make it the current one with one rename.

    `fill` writes the files to a new folder, and returns the retrievers' labels. The previous version
    stays for processes that have it open; older ones are deleted. `source` is kept for
    `read_source`.

    Returns:
        The version, which follows from the content.

    Raises:
        ToolbankError: the folder can't be written to, or another process is writing to it.
    """
    if not source:
        claim_folder(folder, FINDER)
    versions = folder / "versions"
    try:
        versions.mkdir(parents=True, exist_ok=True)
        with (
            _locked(versions),
            tempfile.TemporaryDirectory(dir=versions, prefix=_NEW) as new,
        ):
            made = Path(new, "made")
            made.mkdir()
            labels = fill(made)
            files = tuple(sorted(hash_files(made).items()))
            manifest = Manifest(labels, __version__, files, packed)
            write_manifest(made, manifest)
            _move_in(made, version_folder(folder, manifest.version))
            kept = {manifest.version, Path(new).name}
            # One of another layout is no longer used.
            with suppress(InputError):
                kept.add(read_version(folder))
            switch(folder, manifest.version, source)
            _delete_old(folder, kept)
    except OSError as error:
        raise write_error(folder, error) from error
    return manifest.version


def switch(folder: Path, version: str, source: str = "") -> None:
    """Make a version the current one."""
    mark = {"layout": LAYOUT, "kind": _KIND, "version": version}
    write_json(folder / _MARK, {**mark, "source": source} if source else mark)


@contextmanager
def _locked(versions: Path) -> Iterator[None]:
    """Lock the versions against other processes.

    Raises:
        ToolbankError: another process is packing there.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(versions / _LOCK, timeout=0):
            yield
    except Timeout as error:
        raise ToolbankError(
            f"{versions.parent}: another process is packing there. Wait for it to end."
        ) from error


def _move_in(made: Path, place: Path) -> None:
    """Move a version to its place, unless it is there undamaged: it may be in use."""
    if place.exists():
        try:
            check_version(place, read_manifest(place))
        except InputError:
            set_aside(place.parent.parent, [place])
        else:
            return
    made.replace(place)


def _delete_old(folder: Path, kept: set[str]) -> None:
    for place in (folder / "versions").iterdir():
        if place.name in kept or not place.is_dir() or not _is_ours(place):
            continue
        # What the user has put into a version is not deleted.
        with suppress(InputError):
            if _list_files(place) - dict(read_manifest(place).files).keys():
                continue
        shutil.rmtree(place, ignore_errors=True)


def _is_left_alone(place: Path) -> bool:
    """Check whether it is the folder of versions, which a first pack that failed leaves."""
    is_folder = place.is_dir() and not place.is_symlink()
    return (
        is_folder and place.name == "versions" and all(map(_is_ours, place.iterdir()))
    )


def _is_ours(place: Path) -> bool:
    """Check whether it is a version, the rest of an interrupted pack, or the lock."""
    is_folder = place.is_dir() and not place.is_symlink()
    is_version_of_ours = is_version(place.name) or place.name.startswith(_NEW)
    return (is_folder and is_version_of_ours) or place.name == _LOCK
