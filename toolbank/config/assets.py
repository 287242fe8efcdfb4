"""Files that users can replace: prompts, crawlers, recipes. A user's file hides a bundled one."""

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from toolbank.system.errors import InputError

AssetKind = Literal["prompts", "crawlers", "recipes"]


@dataclass(frozen=True)
class Asset:
    """A file found by name. `own`: it is the user's, not the package's."""

    kind: AssetKind
    name: str
    path: Path
    own: bool

    @property
    def title(self) -> str:
        """Kind and name, such as "prompts/write.j2"."""
        return f"{self.kind}/{self.name}"

    @property
    def sha256(self) -> str:
        """The hash of the file's bytes, in hex."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class AssetFolders:
    """Where files are looked up by name.

    `own` is the user's folder of each kind; by default a folder of that name in the current one.
    `kept` are the files that a run was made with, by title; they hide all others. A kind in
    `sealed` has only the files of `kept`.
    """

    own: Mapping[AssetKind, Path] = field(default_factory=dict)
    kept: Mapping[str, Path] = field(default_factory=dict)
    sealed: frozenset[AssetKind] = frozenset()

    def own_folder(self, kind: AssetKind) -> Path:
        """Return the user's folder of a kind; it may not exist."""
        return self.own.get(kind) or Path.cwd() / kind


_FOLDERS: ContextVar[AssetFolders] = ContextVar("asset_folders")


def current_folders() -> AssetFolders:
    """Return where files are looked up now."""
    return _FOLDERS.get(AssetFolders())


@contextmanager
def looking_in(folders: AssetFolders) -> Iterator[None]:
    """Look files up in these folders while the block runs."""
    token = _FOLDERS.set(folders)
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def shipped(kind: AssetKind) -> Path:
    """Return the bundled folder: inside a wheel, or next to the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "data" / kind
    return inside if inside.is_dir() else package.parent / kind


def own_folders() -> tuple[Path, ...]:
    """List the user's folders of all kinds; they may not exist."""
    folders = current_folders()
    return tuple(folders.own_folder(kind) for kind in get_args(AssetKind))


def has_asset(kind: AssetKind, name: str) -> bool:
    """Return whether `find_asset` finds it."""
    return _find(kind, (name,)) is not None


def list_assets(kind: AssetKind, suffix: str) -> list[Asset]:
    """List the files of a kind by name; one in the user's folder hides a bundled one."""
    own = current_folders().own_folder(kind)
    found = {
        path.name: Asset(kind, path.name, path, is_own)
        for folder, is_own in ((shipped(kind), False), (own, True))
        for path in folder.glob(f"*{suffix}")
        if path.is_file()
    }
    return [found[name] for name in sorted(found)]


def find_asset(kind: AssetKind, *names: str) -> Asset:
    """Find the first of these names: kept by the run, in the user's folder, or bundled.

    Raises:
        InputError: there is none; the message lists valid names.
    """
    if (found := _find(kind, names)) is not None:
        return found
    place = current_folders().own_folder(kind).parent
    raise InputError(
        f"{kind}/{names[0]}: no such file in {place} or in the package. "
        f"{name_others(kind, names[0])}"
    )


def find_inside(folder: Path, name: str) -> Path | None:
    """Find a file in a folder; None if it is missing or a link that leads out of the folder."""
    path = folder / name
    if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
        return path
    return None


def name_others(kind: AssetKind, name: str) -> str:
    """List the files of a kind for an error, the closest name first."""
    suffix = Path(name).suffix
    known = [asset.name for asset in list_assets(kind, suffix)]
    # A common suffix would make any two names close.
    stems = [file.removesuffix(suffix) for file in known]
    near = difflib.get_close_matches(name.removesuffix(suffix), stems, n=1)
    hint = f"Did you mean {near[0]}{suffix}? " if near else ""
    return f"{hint}There are: {', '.join(known) or 'none'}."


def _find(kind: AssetKind, names: tuple[str, ...]) -> Asset | None:
    folders, bundled = current_folders(), shipped(kind)
    for name in names:
        if (kept := folders.kept.get(f"{kind}/{name}")) is not None:
            ours = find_inside(bundled, name)
            is_ours = ours is not None and ours.read_bytes() == kept.read_bytes()
            return Asset(kind, name, kept, own=not is_ours)
    if kind in folders.sealed:
        return None
    own = folders.own_folder(kind)
    for name in names:
        for folder in (own, bundled):
            if (path := find_inside(folder, name)) is not None:
                is_own = folder.resolve() != bundled.resolve()
                return Asset(kind, name, path, is_own)
    return None
