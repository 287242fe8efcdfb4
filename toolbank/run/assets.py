"""The recipe and the files found by name that a run was made with."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
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
from toolbank.run.recipe import RESOLVED, SCHEMA_FILE, Recipe, load_recipe, read_recipe
from toolbank.run.stages import make_stages
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, read_json, sha256_file, write_json
from toolbank.system.folders import set_aside

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import RecipeFile
    from toolbank.run.stage import Stage


_INPUTS = "inputs"


def write_origin(
    folder: RunFolder, recipe: Recipe, inputs: Iterable[Path] = ()
) -> None:
    """Note in origin.json whose the folder is, how its recipe.yaml was left, and what is read.

    The `inputs` of earlier runs stay.
    """
    data = recipe.model_dump(mode="json")
    content = {key: data[key] for key in ("name", "seed", "sources", "dataset")}
    noted = {
        "recipe_sha256": sha256_file(folder.recipe),
        _INPUTS: sorted({os.path.realpath(p) for p in (*read_noted(folder), *inputs)}),
    }
    write_json(folder.origin, {**content, **noted})


def read_noted(folder: RunFolder) -> list[Path]:
    """The recipe and what else the runs in a folder have read; none of earlier versions."""
    try:
        noted: Any = read_json(folder.origin)[_INPUTS]
        return [Path(path) for path in noted]
    except (InputError, KeyError, TypeError):
        return []


def is_edited(folder: RunFolder) -> bool:
    """Whether recipe.yaml is not as the last run left it."""
    try:
        left: Any = read_json(folder.origin)["recipe_sha256"]
    except (InputError, KeyError, TypeError):
        return False
    return folder.recipe.is_file() and sha256_file(folder.recipe) != left


def find_differences(recipe: Recipe, stages: Sequence[Stage]) -> list[str]:
    """How another recipe differs from the one whose results a folder holds, a line each.

    None where it is the same one, or where nothing was made yet.
    """
    folder = stages[0].folder
    if not any(path.exists() for path in folder.of_worth):
        return []
    try:
        earlier = _read_earlier(folder)
    except InputError:
        return ["the recipe that made it can't be read any more"]
    return list(_compare_recipes(earlier, recipe, stages))


def _read_earlier(folder: RunFolder) -> Recipe:
    """The recipe that a folder belongs to, as far as it says so; of older folders, all of it."""
    content = read_json(folder.origin) if folder.origin.is_file() else None
    if not isinstance(content, dict):
        return load_recipe(str(folder.recipe)).recipe
    unused = (
        "recipe_sha256",
        _INPUTS,
        "sources" if content.get("dataset") else "dataset",
    )
    return read_recipe({k: v for k, v in content.items() if k not in unused})


def _compare_recipes(
    old: Recipe, new: Recipe, stages: Sequence[Stage]
) -> Iterator[str]:
    for key in ("name", "seed"):
        before, now = getattr(old, key), getattr(new, key)
        if before != now:
            yield f"{key}: {before} there, {now} in this recipe"
    for key in ("sources", "dataset"):
        before, now = getattr(old, key), getattr(new, key)
        if _shapes(before) != _shapes(now):
            yield f"{key}: {_name(before)} there, {_name(now)} in this recipe"
        # A file may have been moved; it is another where what is in it is another, too.
        elif paths_in(before) != paths_in(now) and any(
            stage.kind == key and not stage.is_done for stage in stages
        ):
            yield (
                f"{key}: {', '.join(map(str, paths_in(before)))} there, "
                f"{', '.join(map(str, paths_in(now)))} in this recipe"
            )


def _shapes(value: Any) -> list[Any]:
    return [shape(one) for one in _parts(value)]


def _name(value: Any) -> str:
    """The settings that were given, such as "{type: python, package: numpy}"."""
    named = []
    for part in _parts(value):
        given = part.model_dump(mode="json", exclude_defaults=True)
        pairs = {"type": part.type, **given}.items()
        named.append(", ".join(f"{key}: {one}" for key, one in pairs))
    return "; ".join(f"{{{one}}}" for one in named) or "none"


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


# How recipe.yaml names the files that its run uses. Version 0.7.0 noted them there alone.
_NOTED = re.compile(r"# ([^:]+/[^:]+): sha256 ([0-9a-f]{64})")
_MOST_LINES = 80


@dataclass(frozen=True)
class KeptAssets:
    """The files that a run was made with.

    `folders` finds these first. `lost` holds the titles of those that are found nowhere any more.
    """

    folders: AssetFolders
    lost: frozenset[str] = field(default_factory=frozenset)

    def accept(self, changes: Iterable[AssetChange]) -> AssetFolders:
        """Find the recipe's files in place of those that have changed."""
        titles = [change.title for change in changes]
        titles += [change.old.title for change in changes if change.old]
        kept = self.folders.kept.items()
        has_rules = any(title.startswith("crawlers/") for title in titles)
        return replace(
            self.folders,
            kept={title: path for title, path in kept if title not in titles},
            sealed=frozenset() if has_rules else self.folders.sealed,
        )


@dataclass(frozen=True)
class AssetChange:
    """A file of the recipe that is not the one that the run was made with.

    `old` is the run's, None if it had none; `new` is None where the run's own is lost.
    """

    title: str
    old: Asset | None
    new: Asset | None

    def describe(self) -> str:
        """The difference as a unified diff, or why there is none to show."""
        if self.new is None:
            return (
                f"{self.title}: the run was made with a file of other content, which is found "
                "nowhere any more"
            )
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
    """Find the files that the run in a folder was made with.

    A stage that has neither results nor replies keeps none, and follows the recipe. Version 0.7.0
    noted hashes alone, and not of all files: what has the hash counts, wherever it is found, and
    of the others what the `stages` were done with.
    """
    own = current_folders()
    if not any(path.exists() for path in folder.of_worth):
        return KeptAssets(own)
    noted = folder.read_assets(_find_asked(folder, stages))
    known = _read_noted_hashes(folder) if None in noted.values() else {}
    is_sealed = noted.get("sources") is not None or ("sources" in noted and known)
    for assets in noted.values():
        known.update(assets or {})
    places = [folder.path, *_find_places(folder)]
    kept, lost = dict[str, Path](), set[str]()
    for title, sha256 in known.items():
        found = _find_all(title, own, places)
        same = next((path for path in found if sha256_file(path) == sha256), None)
        if same is None:
            lost.add(title)
        else:
            kept[title] = same
    sealed: frozenset[AssetKind] = frozenset()
    if is_sealed and not any(title.startswith("crawlers/") for title in lost):
        sealed = frozenset({"crawlers"})
    folders = replace(own, kept=kept, sealed=sealed)
    for stage in stages:
        if stage.name in noted and noted[stage.name] is None:
            folders = _guess(stage, folders, places)
    return KeptAssets(folders, frozenset(lost))


@contextmanager
def using_assets(file: RecipeFile, folder: RunFolder) -> Iterator[None]:
    """Work on a recipe while the block runs, with the files that the run in a folder was made with."""
    from toolbank.run.stages import make_stages

    with file.at_work():
        kept = read_kept(folder, make_stages(file.recipe, folder))
        with looking_in(kept.folders):
            yield


def find_changes(kept: KeptAssets, stages: Sequence[Stage]) -> list[AssetChange]:
    """Which of the user's own files differ from those that the stages of a run were made with.

    A file that the user no longer has does not count: the run has its own.
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
    """Say which folders in the current one are not used, though these stages would differ by them."""
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
            remedy = f"copy them into {own}"
            if kind == "prompts":
                remedy = f"set `prompts: {here}` in the recipe"
            notes.append(f"{here}: not used ({named}). To use these files, {remedy}.")
    return notes


def keep_assets(folder: RunFolder, stage: Stage) -> AssetFolders:
    """Copy the files that a stage uses into the run folder; gives where they are found then.

    Raises:
        InputError: one is missing.
        ToolbankError: the folder can't be written to.
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
            # Such as the examples for any API, where the user has some of the domain by now.
            folder = Path(title).parent
            gone = (used[one] for one in used.keys() - theirs.keys())
            old = next((a for a in gone if Path(a.title).parent == folder), None)
        if old is None or old.title != title or old.sha256 != new.sha256:
            yield AssetChange(title, old, new)


def _list_assets(stage: Stage) -> dict[str, Asset]:
    """The files that a stage finds by name; none where one is missing."""
    with suppress(InputError):
        return {asset.title: asset for asset in stage.all_assets()}
    return {}


def _find_asked(folder: RunFolder, stages: Sequence[Stage]) -> list[str]:
    """The stages without a result that have replies, or requests on their way."""
    pending = folder.find_pending()
    asked = [stage for stage in stages if stage.name in pending and stage.steps]
    if not asked or any((folder.path / "batch").glob("*")):
        return [stage.name for stage in asked]
    if not folder.journal.is_file():
        return []
    with Journal(folder.journal, read_only=True) as journal:
        return [s.name for s in asked if any(True for _ in journal.attempts(s.steps))]


def _guess(stage: Stage, folders: AssetFolders, places: Sequence[Path]) -> AssetFolders:
    """Add the files that a stage was done with, where nothing says which; else those found first."""
    with looking_in(folders):
        titles = [title for title in _list_assets(stage) if title not in folders.kept]
    for title in titles:
        tries = [
            replace(folders, kept={**folders.kept, title: path})
            for path in _find_all(title, folders, places)
        ]
        for one in tries:
            with looking_in(one):
                if stage.is_done:
                    return one
        folders = tries[0] if tries else folders
    return folders


def _find_all(
    title: str, folders: AssetFolders, places: Sequence[Path]
) -> Iterator[Path]:
    """The files of a title: in the run folder, the user's and earlier ones, and the bundled one."""
    for kind in KEPT_KINDS:
        if title.startswith(f"{kind}/"):
            name = title.removeprefix(f"{kind}/")
            homes = [place / kind for place in places]
            for home in (homes[0], folders.own_folder(kind), *homes[1:], shipped(kind)):
                if (path := find_inside(home, name)) is not None:
                    yield path


def _find_places(folder: RunFolder) -> list[Path]:
    """The folders in which runs found files by name before, and the current one."""
    before = (path.parent for path in read_noted(folder) if path.name in KEPT_KINDS)
    return list(dict.fromkeys([*before, Path.cwd()]))


def _read_noted_hashes(folder: RunFolder) -> dict[str, str]:
    try:
        text = folder.recipe.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    head = text.splitlines()[1:]
    found = {}
    for line in head:
        if not (noted := _NOTED.fullmatch(line)):
            break
        found[noted[1]] = noted[2]
    return found


def _read_lines(asset: Asset | None) -> list[str]:
    if asset is None:
        return []
    return asset.path.read_text(encoding="utf-8", errors="replace").splitlines()


def list_inputs(recipe: Recipe, folder: RunFolder, out: Path) -> list[Path]:
    """The files and folders that a run reads, there or not, and `out` if it is the recipe itself.

    Where the run was begun, other files may be found by the same names than here: both count.
    """
    head = folder.recipe.read_text(encoding="utf-8").partition("\n")[0]
    name, _, sha256 = head.removeprefix(RESOLVED).rpartition(", sha256 ")
    found = [out] if out.is_file() and sha256_file(out) == sha256 else []
    given = Path(name) if name else folder.recipe
    stages = make_stages(recipe, folder)
    # The name alone counts here: a project may have moved since, or be of an earlier version.
    found += [*read_noted(folder), *inputs_here(stages, given)]
    for stage in stages:
        with suppress(InputError):
            found += stage.files()
    return [*found, *(path for path in paths_in(recipe) if not path.is_dir())]


def inputs_here(stages: Iterable[Stage], recipe: Path) -> list[Path]:
    """A recipe with what lies beside it, and what stages find by name from the current folder."""
    found = [recipe, recipe.with_name(SCHEMA_FILE), *own_folders()]
    for stage in stages:
        # Of what is gone, nothing can be written over.
        with suppress(InputError):
            found += stage.places()
    return found
