"""The files that users edit: prompts, crawlers, recipes. A user's own goes before ours."""

import difflib
import hashlib
from dataclasses import dataclass
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
    def sha256(self) -> str:
        """Of the file's bytes, in hex."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def shipped(kind: AssetKind) -> Path:
    """The folder that comes with the package: inside a wheel, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "data" / kind
    return inside if inside.is_dir() else package.parent / kind


def own_folders() -> tuple[Path, ...]:
    """Where a user's own files go before ours, there or not."""
    return tuple(Path.cwd() / kind for kind in get_args(AssetKind))


def has_asset(kind: AssetKind, name: str) -> bool:
    """Whether `find_asset` would find it."""
    return any(
        (folder / name).is_file() for folder in (Path.cwd() / kind, shipped(kind))
    )


def list_assets(kind: AssetKind, suffix: str) -> list[Asset]:
    """The files of a kind by name; one under the current folder goes before ours."""
    found = {
        path.name: Asset(kind, path.name, path, own)
        for folder, own in ((shipped(kind), False), (Path.cwd() / kind, True))
        for path in folder.glob(f"*{suffix}")
        if path.is_file()
    }
    return [found[name] for name in sorted(found)]


def find_asset(kind: AssetKind, name: str) -> Asset:
    """Find `<kind>/<name>` under the current folder, or else the one that we ship.

    Raises:
        InputError: neither is there; the message lists the names that are.
    """
    for folder, own in ((Path.cwd() / kind, True), (shipped(kind), False)):
        path = folder / name
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            own = own and folder.resolve() != shipped(kind).resolve()
            return Asset(kind, name, path, own)
    raise InputError(
        f"{kind}/{name}: no such file here or in the package. {name_others(kind, name)}"
    )


def name_others(kind: AssetKind, name: str) -> str:
    """Which files of a kind there are, the one that was meant first."""
    suffix = Path(name).suffix
    known = [asset.name for asset in list_assets(kind, suffix)]
    # An ending that all have makes any two alike.
    stems = [file.removesuffix(suffix) for file in known]
    near = difflib.get_close_matches(name.removesuffix(suffix), stems, n=1)
    hint = f"Did you mean {near[0]}{suffix}? " if near else ""
    return f"{hint}There are: {', '.join(known) or 'none'}."
