"""The recipe and the assets (prompts, crawlers) that a run was made with."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.assets import (
    Asset,
    AssetFolders,
    AssetKind,
    current_folders,
    find_inside,
    looking_in,
    own_folders,
    shipped,
)
from toolbank.config.base import paths_in, shape
from toolbank.llm.journal import Journal
from toolbank.run.folder import KEPT_KINDS
from toolbank.run.recipe import RESOLVED, SCHEMA_FILE, Recipe, load_recipe, read_origin
from toolbank.run.stages import make_stages
from toolbank.run.version_0_7 import find_assets, read_asset_hashes
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, read_json, sha256_file, write_json
from toolbank.system.folders import set_aside

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import RecipeFile
    from toolbank.run.stage import Stage


_INPUTS = "inputs"
_EARLIER = Path(__file__).parent / "earlier"
"""Assets as version 0.7.0 bundled them, which its runs have no copies of."""


def write_origin(
    folder: RunFolder, recipe: Recipe, inputs: Iterable[Path] = ()
) -> None:
    """Write to origin.json which recipe the folder belongs to, and what its runs have read.

    The inputs of earlier runs stay in the list.
    """
    data = recipe.model_dump(mode="json")
    content = {key: data[key] for key in ("name", "seed", "sources", "dataset")}
    content |= recipe.other_bank_seed
    noted = {
        "recipe_sha256": sha256_file(folder.recipe),
        _INPUTS: sorted({os.path.realpath(p) for p in (*read_noted(folder), *inputs)}),
    }
    write_json(folder.origin, {**content, **noted})


def _read_origin(folder: RunFolder, key: str) -> Any:
    """Read a key of origin.json; None if it is missing."""
    with suppress(InputError, KeyError, TypeError):
        return read_json(folder.origin)[key]
    return None


def read_noted(folder: RunFolder) -> list[Path]:
    """List the recipe and the other inputs of the runs in a folder."""
    with suppress(TypeError):
        return [Path(path) for path in _read_origin(folder, _INPUTS)]
    return []


def is_edited(folder: RunFolder) -> bool:
    """Return whether recipe.yaml has changed since the last run."""
    sha256 = _read_origin(folder, "recipe_sha256")
    is_noted = sha256 is not None and folder.recipe.is_file()
    return is_noted and sha256_file(folder.recipe) != sha256


def find_differences(recipe: Recipe, stages: Sequence[Stage]) -> list[str]:
    """List how a recipe differs from the one whose results a folder holds."""
    folder = stages[0].folder
    if not any(path.exists() for path in folder.of_worth):
        return []
    try:
        earlier = _read_earlier(folder)
    except InputError as error:
        return [f"the recipe that made it cannot be read: {error}"]
    return list(_compare_recipes(earlier, recipe, stages))


def _read_earlier(folder: RunFolder) -> Recipe:
    """The recipe that a folder belongs to: what identifies it, or without origin.json all of it."""
    content = read_json(folder.origin) if folder.origin.is_file() else None
    if not isinstance(content, dict):
        return load_recipe(str(folder.recipe)).recipe
    unused = (
        "recipe_sha256",
        _INPUTS,
        "sources" if content.get("dataset") else "dataset",
    )
    recipe = {key: value for key, value in content.items() if key not in unused}
    return read_origin(recipe, folder.origin)


def _compare_recipes(
    old: Recipe, new: Recipe, stages: Sequence[Stage]
) -> Iterator[str]:
    for key in ("name", "seed", "bank_seed"):
        before, now = getattr(old, key), getattr(new, key)
        if before != now:
            yield _differ(key, str(before), str(now))
    for key in ("sources", "dataset"):
        before, now = getattr(old, key), getattr(new, key)
        if _shapes(before) != _shapes(now):
            yield _differ(key, _describe_parts(before), _describe_parts(now))
        # A file may have moved; it counts as another one only if its content has changed.
        elif paths_in(before) != paths_in(now) and any(
            stage.kind == key and not stage.is_done for stage in stages
        ):
            paths = (", ".join(map(str, paths_in(one))) for one in (before, now))
            yield _differ(key, *paths)


def _differ(key: str, before: str, now: str) -> str:
    return f"{key}: {before} there, {now} in this recipe"


def _shapes(value: Any) -> list[Any]:
    return [shape(one) for one in _parts(value)]


def _describe_parts(value: Any) -> str:
    """Describe sources or a dataset, such as "{type: python, package: numpy}"."""
    texts = []
    for part in _parts(value):
        settings = part.model_dump(mode="json", exclude_defaults=True)
        pairs = {"type": part.type, **settings}.items()
        texts.append(", ".join(f"{key}: {setting}" for key, setting in pairs))
    return "; ".join(f"{{{text}}}" for text in texts) or "none"


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


_MOST_LINES = 80


@dataclass(frozen=True)
class KeptAssets:
    """The assets that a run was made with.

    `folders` finds them first. `lost` has the titles of those that exist nowhere any more.
    """

    folders: AssetFolders
    lost: frozenset[str] = field(default_factory=frozenset)

    def accept(self, changes: Iterable[AssetChange]) -> AssetFolders:
        """Return folders that find the recipe's files in place of the changed ones."""
        titles = [change.title for change in changes]
        titles += [change.old.title for change in changes if change.old]
        kept = self.folders.kept.items()
        has_rules = any(map(_is_crawler, titles))
        return replace(
            self.folders,
            kept={title: path for title, path in kept if title not in titles},
            sealed=frozenset() if has_rules else self.folders.sealed,
        )


@dataclass(frozen=True)
class AssetChange:
    """An asset of the recipe that differs from the run's.

    `old` is the run's, None if it has none. `new` is None if the run's own is lost.
    """

    title: str
    old: Asset | None
    new: Asset | None

    def describe(self) -> str:
        """Return the difference as a unified diff."""
        if self.new is None:
            return f"{self.title}: the run used another version, which no longer exists"
        lines = list(
            difflib.unified_diff(
                _read_lines(self.old),
                _read_lines(self.new),
                f"{self.old.title if self.old else self.title} (the run's)",
                f"{self.new.path} (the recipe's)",
                lineterm="",
            )
        )
        if len(lines) > _MOST_LINES:
            more = len(lines) - _MOST_LINES
            lines[_MOST_LINES:] = [f"... {more:,} more lines"]
        return "\n".join(lines)


def read_kept(folder: RunFolder, stages: Sequence[Stage]) -> KeptAssets:
    """Find the files that the run in a folder was made with, by their hashes.

    A stage that has neither results nor replies keeps none, and follows the recipe.
    """
    own = current_folders()
    if not any(path.exists() for path in folder.of_worth):
        return KeptAssets(own)
    hashes = folder.read_assets(_find_begun(folder, stages))
    earlier = [name for name, assets in hashes.items() if assets is None]
    noted = read_asset_hashes(folder.recipe) if earlier else {}
    hashes |= dict.fromkeys(earlier, noted or None)
    kept, lost = dict[str, Path](), set[str]()
    for assets in filter(None, hashes.values()):
        for title, sha256 in assets.items():
            places = _find_places(title, folder, own)
            same = (path for path in places if sha256_file(path) == sha256)
            if path := next(same, None):
                kept[title] = path
            else:
                lost.add(title)
    has_rules = hashes.get("sources") is not None and not any(map(_is_crawler, lost))
    sealed: frozenset[AssetKind] = frozenset({"crawlers"} if has_rules else ())
    folders = replace(own, kept=kept, sealed=sealed)
    for stage in stages:
        if stage.name in earlier:
            find = partial(_find_places, folder=folder, folders=own)
            folders = find_assets(stage, folders, find)
    return KeptAssets(folders, frozenset(lost))


def _is_crawler(title: str) -> bool:
    return title.startswith("crawlers/")


@contextmanager
def using_assets(file: RecipeFile, folder: RunFolder) -> Iterator[None]:
    """Work on a recipe with the assets of the run in a folder, while the block runs."""
    with file.at_work():
        kept = read_kept(folder, make_stages(file.recipe, folder))
        with looking_in(kept.folders):
            yield


def find_changes(kept: KeptAssets, stages: Sequence[Stage]) -> list[AssetChange]:
    """List the user's assets that differ from those that a run was made with.

    A file that the user no longer has does not count: the run has a copy.
    """
    found: dict[str, AssetChange] = {}
    for stage in stages:
        if stage.reads_assets:
            theirs = _list_assets(stage)
            with looking_in(kept.folders):
                used = _list_assets(stage)
            for change in _compare(kept, used, theirs):
                found.setdefault(change.title, change)
    return list(found.values())


def note_unused(recipe: Recipe, stages: Sequence[Stage]) -> list[str]:
    """Name asset folders in the current folder that are not used, but would change these stages."""
    notes, folders = [], current_folders()
    reading = [stage for stage in stages if stage.reads_assets]
    used = {title: a for stage in reading for title, a in _list_assets(stage).items()}
    for kind in KEPT_KINDS:
        here, own = Path.cwd() / kind, folders.own_folder(kind)
        is_named = kind == "prompts" and recipe.prompts is not None
        if is_named or not here.is_dir() or here.resolve() == own.resolve():
            continue
        with looking_in(AssetFolders({**folders.own, kind: here})):
            theirs = (a for stage in reading for a in _list_assets(stage).values())
            other = {
                a.title
                for a in theirs
                if a.own and a.path.is_relative_to(here)
                if a.title not in used or used[a.title].sha256 != a.sha256
            }
        if other:
            named = ", ".join(sorted(other))
            set_it = f"set `prompts: {here}` in the recipe"
            remedy = set_it if kind == "prompts" else f"copy them into {own}"
            notes.append(f"{here}: not used ({named}). To use these files, {remedy}.")
    return notes


def keep_assets(folder: RunFolder, stage: Stage) -> AssetFolders:
    """Copy the assets of a stage into the run folder; returns folders that find the copies.

    Raises:
        InputError: an asset is missing.
        ToolbankError: the folder is not writable.
    """
    folders, assets = current_folders(), stage.all_assets()
    kept = {asset.title: folder.path / asset.kind / asset.name for asset in assets}
    for asset in assets:
        target, content = kept[asset.title], asset.path.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        set_aside(folder.path, [target])
        with atomic_path(target) as temporary:
            temporary.write_bytes(content)
    folder.note_assets(stage.name, {asset.title: asset.sha256 for asset in assets})
    return replace(folders, kept={**folders.kept, **kept})


def _compare(
    kept: KeptAssets, used: Mapping[str, Asset], theirs: Mapping[str, Asset]
) -> Iterator[AssetChange]:
    for title in used.keys() & kept.lost:
        if title.startswith("prompts/"):
            yield AssetChange(title, None, None)
    for title, new in theirs.items():
        if not new.own:
            continue
        old = used.get(title)
        if old is None:
            # Such as the general examples, if the user has added some of the domain.
            folder = Path(title).parent
            gone = (used[one] for one in used.keys() - theirs.keys())
            old = next((a for a in gone if Path(a.title).parent == folder), None)
        if old is None or old.title != title or old.sha256 != new.sha256:
            yield AssetChange(title, old, new)


def _list_assets(stage: Stage) -> dict[str, Asset]:
    """The assets of a stage by title; none if one is missing."""
    with suppress(InputError):
        return {asset.title: asset for asset in stage.all_assets()}
    return {}


def _find_begun(folder: RunFolder, stages: Sequence[Stage]) -> list[str]:
    """Find the stages without a result that have replies, or requests in a batch."""
    pending = folder.find_pending()
    asked = [stage for stage in stages if stage.name in pending and stage.steps]
    if not asked or any((folder.path / "batch").glob("*")):
        return [stage.name for stage in asked]
    if not folder.journal.is_file():
        return []
    with Journal(folder.journal, read_only=True) as journal:
        return [s.name for s in asked if any(True for _ in journal.attempts(s.steps))]


def _find_places(
    title: str, folder: RunFolder, folders: AssetFolders
) -> Iterator[Path]:
    """Find the files of a title: the run's, the user's, those of earlier runs, the bundled ones."""
    for kind in KEPT_KINDS:
        if title.startswith(f"{kind}/"):
            name = title.removeprefix(f"{kind}/")
            earlier = (path for path in read_noted(folder) if path.name == kind)
            own = folder.path / kind, folders.own_folder(kind)
            for home in (*own, *earlier, shipped(kind), _EARLIER / kind):
                if (path := find_inside(home, name)) is not None:
                    yield path


def _read_lines(asset: Asset | None) -> list[str]:
    if asset is None:
        return []
    return asset.path.read_text(encoding="utf-8", errors="replace").splitlines()


def list_inputs(recipe: Recipe, folder: RunFolder, out: Path) -> list[Path]:
    """List the files and folders that a run reads, and `out` if it is the recipe itself.

    The names may mean other files in the folder where the run was started: both count.
    """
    head = folder.recipe.read_text(encoding="utf-8").partition("\n")[0]
    name, _, sha256 = head.removeprefix(RESOLVED).rpartition(", sha256 ")
    found = [out] if out.is_file() and sha256_file(out) == sha256 else []
    given = Path(name) if name else folder.recipe
    stages = make_stages(recipe, folder)
    # Only the name counts: the project may have moved.
    found += [*read_noted(folder), *inputs_here(stages, given)]
    for stage in stages:
        with suppress(InputError):
            found += stage.files()
    return [*found, *(path for path in paths_in(recipe) if not path.is_dir())]


def inputs_here(stages: Iterable[Stage], recipe: Path) -> list[Path]:
    """List a recipe, the files next to it, and what stages find by name from the current folder."""
    found = [recipe, recipe.with_name(SCHEMA_FILE), *own_folders()]
    for stage in stages:
        # A file that is gone cannot be overwritten.
        with suppress(InputError):
            found += stage.places()
    return found
