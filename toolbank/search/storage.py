"""Read and write the retrievers and tools of a finder; `toolbank.search.folder` has the versions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.encoders.config import Precision
from toolbank.encoders.onnx import open_network
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import ENCODERS, Packing, list_encoders
from toolbank.retrievers.calibration import Calibration
from toolbank.search.catalogue import RequestIndex, ToolCatalogue
from toolbank.search.folder import (
    CALIBRATION,
    RETRIEVERS,
    UNCALIBRATED,
    Manifest,
    check_version,
    is_former_save,
    read_manifest,
    read_uncalibrated,
    read_version,
    refusing_damage,
    version_folder,
)
from toolbank.search.state import FinderState
from toolbank.system.errors import InputError
from toolbank.system.files import write_json

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

Calibrate = Callable[["Retriever", "Retriever"], Calibration | str]
"""Calibrates a packed retriever, given that and the fitted one it was made from.

A text gives the reason why there is no calibration.
"""
NO_CALIBRATION = "it has no calibration"
_NO_REQUESTS = "it was packed without requests to calibrate on"


def read_state(
    folder: Path, retriever: str | None, *, one: bool
) -> tuple[FinderState, str, bool]:
    """Read the current version of a finder and check its files; see `Finder.open`.

    Returns:
        The state, the version ("" for a save of an earlier toolbank), and whether it is packed.

    Raises:
        InputError: as `Finder.open`.
    """
    if is_former_save(folder):
        return _read_former_save(folder, retriever), "", False
    version = read_version(folder)
    place = version_folder(folder, version)
    manifest = read_manifest(place)
    with refusing_damage(place):
        state = _read_version(folder, place, manifest, retriever, one=one)
    return state, version, manifest.packed


def _read_version(
    folder: Path, place: Path, manifest: Manifest, retriever: str | None, *, one: bool
) -> FinderState:
    labels = manifest.retrievers
    _check_label(folder, retriever, labels)
    if one:
        labels = (retriever or labels[0],)
    folders = [f"{RETRIEVERS}/{label}" for label in labels]
    encoders: list[str] = []
    if manifest.packed:
        names = {name for one in folders for name in list_encoders(place / one)}
        encoders = [f"{ENCODERS}/{name}" for name in sorted(names)]
    read = (*folders, *encoders, *(f"{CALIBRATION}/{label}" for label in labels))
    of_others = (RETRIEVERS, CALIBRATION, ENCODERS)
    check_version(
        place,
        manifest,
        lambda name: _is_in(name, read) or not _is_in(name, of_others),
    )
    networks = tuple(open_network(place / one) for one in encoders)
    retrievers = {
        label: load_retriever(place / one)
        for label, one in zip(labels, folders, strict=True)
    }
    uncalibrated = read_uncalibrated(place, manifest)
    calibrations = {
        label: _read_calibration(place / CALIBRATION / label)
        for label in labels
        if manifest.packed and label not in uncalibrated
    }
    tools = ToolCatalogue.read(place, retrievers[labels[0]].tools)
    if any(loaded.tools != tools.names for loaded in retrievers.values()):
        raise ValueError("its retrievers have different tools")
    requests = RequestIndex.read(place)
    if requests is not None and not one:
        requests.prepare()
    return FinderState(
        retrievers,
        tools,
        calibrations,
        uncalibrated,
        requests=requests,
        networks=networks,
    )


def _read_former_save(folder: Path, retriever: str | None) -> FinderState:
    from toolbank.bank.files import read_tools

    saved = load_retriever(folder / "retriever")
    path = folder / "tools.parquet"
    _check_label(folder, retriever, (saved.name,))
    tools = ToolCatalogue(read_tools(path))
    if saved.tools != tools.names:
        raise InputError(f"{path}: damaged (not the retriever's tools).")
    return FinderState({saved.name: saved}, tools)


def _check_label(folder: Path, label: str | None, labels: Sequence[str]) -> None:
    if label is not None and label not in labels:
        raise InputError(
            f"{folder}: no retriever {label!r}; there are: {', '.join(labels)}."
        )


def _read_calibration(folder: Path) -> Calibration:
    calibration = Calibration()
    calibration.load_state(folder, {})
    return calibration


def _is_in(name: str, folders: Sequence[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)


def write_fitted(state: FinderState, folder: Path) -> tuple[str, ...]:
    """Write the files of a saved version; gives the labels of its retrievers."""
    for label, retriever in state.retrievers.items():
        retriever.save(folder / RETRIEVERS / label)
    state.tools.write(folder)
    return tuple(state.retrievers)


def write_packed(
    state: FinderState,
    folder: Path,
    calibrate: Calibrate | None = None,
    precisions: tuple[Precision, ...] = ("fp32",),
    find_copy: Callable[[str], Path | None] | None = None,
) -> tuple[str, ...]:
    """Write the files of a packed version; gives the labels of its retrievers.

    See `Finder.pack`; `find_copy` is that of `Packing`.
    """
    from tqdm import tqdm

    labels: list[str] = []
    reasons: dict[str, str] = {}
    each = [*product(precisions, state.retrievers)]
    packings = {
        precision: Packing(folder, precision, find_copy) for precision in precisions
    }
    for precision, label in tqdm(each, "pack", unit="retriever", disable=None):
        packing, retriever = packings[precision], state.retrievers[label]
        first = precision == precisions[0]
        name = label if first else f"{label}-{precision}"
        place = folder / RETRIEVERS / name
        before = len(packing.networks)
        retriever.pack(place, packing)
        if not first and len(packing.networks) == before:
            shutil.rmtree(place)
            continue
        labels.append(name)
        if calibrate:
            found = calibrate(load_retriever(place), retriever) or _NO_REQUESTS
        else:
            reason = state.uncalibrated.get(label, _NO_REQUESTS)
            found = state.calibrations.get(label, reason)
        if isinstance(found, Calibration):
            found.save_state(folder / CALIBRATION / name)
        else:
            reasons[name] = found
    write_json(folder / UNCALIBRATED, reasons)
    state.tools.write(folder)
    if state.requests is not None:
        state.requests.write(folder)
    return tuple(labels)
