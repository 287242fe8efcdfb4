"""Writing a packed finder: a new version beside the old, switched to by one rename."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from toolbank.bank.records import Tool
from toolbank.encoders.config import Precision
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import Packing
from toolbank.retrievers.calibration import Calibration
from toolbank.search.catalogue import write_catalogue, write_requests
from toolbank.search.format import (
    CALIBRATION,
    RETRIEVERS,
    Manifest,
    check_files,
    check_list,
    is_packed,
    is_version,
    read_manifest,
    read_version,
    version_folder,
    write_manifest,
    write_uncalibrated,
    write_version,
)
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import unwritable
from toolbank.system.folders import (
    Files,
    FolderKind,
    check_folder,
    claim_folder,
    hash_files,
    refuse_foreign,
    remove_files,
    set_aside,
)
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

_NEW, _LOCK = ".new-", ".lock"
Requests = Iterable[tuple[str, tuple[str, ...]]]
Calibrate = Callable[["Retriever", "Retriever"], Calibration | str]
"""Calibrates a retriever as it was packed, given that and the one that it was packed from.

A text says why it has no calibration.
"""
_NO_REQUESTS = "it was packed without requests to calibrate on"


def write_packed(
    folder: Path,
    retrievers: Mapping[str, Retriever],
    tools: Sequence[Tool],
    requests: Requests | None = None,
    calibrate: Calibrate | None = None,
    precisions: tuple[Precision, ...] = ("fp32",),
) -> str:
    """Write retrievers of the same tools as a packed finder; the first is searched with.

    The version that counted before stays beside the new one, for who has it open; older ones are
    deleted. `requests` are the bank's, with the names of their tools, if they are to go in.
    Retrievers with networks are written in the first of `precisions`, and in each further one as
    LABEL-PRECISION. `calibrate` gives what the scores of each mean, as it is written and read again:
    in 8 bits they are others. Why a retriever has no calibration is written, too.

    Returns:
        The version, which follows from the content.

    Raises:
        InputError: the folder holds anything else than a packed finder, or lies in a run.
        ToolbankError: the folder can't be written to.
    """
    check_packable(folder)
    claim_folder(folder, PACK)
    versions = folder / "versions"
    try:
        versions.mkdir(parents=True, exist_ok=True)
        with (
            _locked(versions),
            tempfile.TemporaryDirectory(dir=versions, prefix=_NEW) as new,
        ):
            made = Path(new, "made")
            made.mkdir()
            labels = _pack(made, retrievers, calibrate, precisions)
            write_catalogue(made, tools)
            if requests is not None:
                write_requests(made, requests)
            version = _seal(made, labels)
            _move_in(made, version_folder(folder, version))
            kept = {version, Path(new).name}
            # One of another layout is nobody's any more.
            with suppress(InputError):
                kept.add(read_version(folder))
            write_version(folder, version)
            _delete_old(folder, kept)
    except OSError as error:
        raise ToolbankError(unwritable(folder, error)) from error
    return version


@contextmanager
def _locked(versions: Path) -> Iterator[None]:
    """Write versions alone.

    Raises:
        ToolbankError: another process is packing there.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(versions / _LOCK, timeout=0):
            yield
    except Timeout as error:
        raise ToolbankError(
            f"{versions.parent}: another process is packing there. Wait for it to end, or give "
            "another --out."
        ) from error


def check_packable(folder: Path) -> None:
    """Look whether a packed finder can be written to a folder.

    Raises:
        InputError: as of `check_folder`, or its finder.json is somebody else's.
    """
    check_folder(folder, PACK)
    if not is_packed(folder):
        refuse_foreign(folder, PACK, ["finder.json"], {})


def _recognize(folder: Path) -> Files | None:
    """Whether a folder is a packed finder of an earlier version, or what is left of a first one."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    is_ours = is_packed(folder) or all(map(_is_left_alone, folder.iterdir()))
    return {} if is_ours else None


PACK = FolderKind("packed finder", recognize=_recognize)


def _pack(
    made: Path,
    retrievers: Mapping[str, Retriever],
    calibrate: Calibrate | None,
    precisions: tuple[Precision, ...],
) -> tuple[str, ...]:
    """Write the retrievers; of those with networks, one of each further precision besides."""
    labels: list[str] = []
    reasons: dict[str, str] = {}
    each = [(precision, label) for precision in precisions for label in retrievers]
    packings = {precision: Packing(made, precision) for precision in precisions}
    with tqdm(each, "pack", unit="retriever", disable=None) as shown:
        for precision, label in shown:
            packing, retriever = packings[precision], retrievers[label]
            first = precision == precisions[0]
            name = label if first else f"{label}-{precision}"
            folder = made / RETRIEVERS / name
            before = len(packing.networks)
            retriever.pack(folder, packing)
            if first or len(packing.networks) > before:
                labels.append(name)
                found: Calibration | str = _NO_REQUESTS
                if calibrate:
                    found = calibrate(load_retriever(folder), retriever)
                if not isinstance(found, Calibration):
                    reasons[name] = found or _NO_REQUESTS
                else:
                    found.save_state(made / CALIBRATION / name)
            else:
                shutil.rmtree(folder)
    write_uncalibrated(made, reasons)
    return tuple(labels)


def _seal(made: Path, labels: tuple[str, ...]) -> str:
    """Write the manifest; the version that it is of."""
    files = tuple(sorted(hash_files(made).items()))
    manifest = Manifest(labels, __version__, files)
    write_manifest(made, manifest)
    return manifest.version


def _move_in(made: Path, place: Path) -> None:
    """Move a version to its place, unless it lies there sound: then it may be in use."""
    if place.exists():
        try:
            manifest = read_manifest(place)
            check_list(place, manifest)
            check_files(place, manifest)
        except InputError:
            set_aside(place.parent.parent, [place])
        else:
            return
    made.replace(place)


def _delete_old(folder: Path, kept: set[str]) -> None:
    for place in (folder / "versions").iterdir():
        if place.name in kept or not place.is_dir() or not _is_ours(place):
            continue
        if place.name.startswith(_NEW):
            shutil.rmtree(place, ignore_errors=True)
            continue
        files = {}
        # Without a manifest, it isn't known what was written there.
        with suppress(InputError):
            files = dict(read_manifest(place).files)
            files |= hash_files(place, [place / "pack.json"])
        remove_files(place, files, place)


def _is_left_alone(place: Path) -> bool:
    """Whether it is the folder of versions, all that a first pack that failed leaves."""
    is_folder = place.is_dir() and not place.is_symlink()
    return (
        is_folder and place.name == "versions" and all(map(_is_ours, place.iterdir()))
    )


def _is_ours(place: Path) -> bool:
    """Whether it is a version, what a pack that was broken off has left of one, or the lock."""
    is_folder = place.is_dir() and not place.is_symlink()
    is_version_of_ours = is_version(place.name) or place.name.startswith(_NEW)
    return (is_folder and is_version_of_ours) or place.name == _LOCK
