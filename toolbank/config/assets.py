"""The files that users edit: prompts, crawlers, recipes. A user's own file replaces a bundled one."""

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
    """A file found by name. `own` says that it is the user's and not the package's."""

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
        """Of the file's bytes, in hex."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class AssetFolders:
    """Where files are found by name.

    `own` names the user's folder by kind; a kind without one has its folder in the current folder.
    `kept` holds the files that a run was made with, by title, and they come before all others. A
    kind in `sealed` has only the files of `kept`.
    """

    own: Mapping[AssetKind, Path] = field(default_factory=dict)
    kept: Mapping[str, Path] = field(default_factory=dict)
    sealed: frozenset[AssetKind] = frozenset()

    def own_folder(self, kind: AssetKind) -> Path:
        """The user's folder of a kind, there or not."""
        return self.own.get(kind) or Path.cwd() / kind


_FOLDERS: ContextVar[AssetFolders] = ContextVar("asset_folders")


def current_folders() -> AssetFolders:
    """Where files are looked up now."""
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
    """The folder that comes with the package: inside a wheel, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "data" / kind
    return inside if inside.is_dir() else package.parent / kind


def own_folders() -> tuple[Path, ...]:
    """The user's folders of all kinds, there or not."""
    folders = current_folders()
    return tuple(folders.own_folder(kind) for kind in get_args(AssetKind))


def has_asset(kind: AssetKind, name: str) -> bool:
    """Whether `find_asset` would find it."""
    return _find(kind, (name,)) is not None


def list_assets(kind: AssetKind, suffix: str) -> list[Asset]:
    """The files of a kind by name; one in the user's folder replaces a bundled one."""
    own = current_folders().own_folder(kind)
    found = {
        path.name: Asset(kind, path.name, path, is_own)
        for folder, is_own in ((shipped(kind), False), (own, True))
        for path in folder.glob(f"*{suffix}")
        if path.is_file()
    }
    return [found[name] for name in sorted(found)]


def find_asset(kind: AssetKind, *names: str) -> Asset:
    """Find the first of these names that a run keeps, the user has or the package bundles.

    Raises:
        InputError: there is none; the message lists the names that are there.
    """
    if (found := _find(kind, names)) is not None:
        return found
    place = current_folders().own_folder(kind).parent
    raise InputError(
        f"{kind}/{names[0]}: no such file in {place} or in the package. "
        f"{name_others(kind, names[0])}"
    )


def find_inside(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder; None where there is none, or a link leads out of it."""
    path = folder / name
    if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
        return path
    return None


def name_others(kind: AssetKind, name: str) -> str:
    """Which files of a kind there are, the one that was meant first."""
    suffix = Path(name).suffix
    known = [asset.name for asset in list_assets(kind, suffix)]
    # An ending that all have makes any two alike.
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
