"""Reading the sources of a run again: what has changed, keeping it, and what has to be run first."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_frame
from toolbank.bank.records import Tool
from toolbank.bank.split import Catalogue
from toolbank.run.assets import keep_assets, using_assets
from toolbank.run.catalogue import (
    count_begun,
    explain_loss,
    former_tools,
    has_begun,
    keep_labels,
    keep_tools,
    read_catalogue,
)
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import Recipe, RecipeFile, load_recipe
from toolbank.run.run import check_stages
from toolbank.run.stages.sources import SourcesStage
from toolbank.run.stages.verify import VerifyStage
from toolbank.sources.collect import collect_anew
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import advise_to_finish, command

if TYPE_CHECKING:
    from toolbank.sources.kind import ToolCollection

# What follows from other tools, or from the version that a label tells: it says nothing new.
_DERIVED = {"source", "twins"}


@dataclass(frozen=True)
class Changes:
    """How tools differ, by name; `changed` has the fields that do, of each that did."""

    added: tuple[Tool, ...]
    removed: tuple[Tool, ...]
    changed: dict[str, tuple[str, ...]]
    same: int


@dataclass(frozen=True)
class Refreshed:
    """What reading the sources again gave, and the catalogue that there is with it.

    `lost_requests` is how many requests of the bank need a tool that is gone, `kept` whether
    anything was written, `unread` the labels of the sources that can't be read and have no tools any
    more, `stale` those of the parts that can't be read and keep the tools that they had.
    """

    recipe: Recipe
    folder: RunFolder
    changes: Changes
    catalogue: Catalogue
    lost_requests: int
    problems: tuple[str, ...]
    kept: bool
    unread: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


def refresh_run(run: Path, *, dry_run: bool = False, force: bool = False) -> Refreshed:
    """Read the sources of a run again, and keep what they give now; no model is called.

    A source that can't be read, or a part of one, keeps the tools that it had. With `dry_run`
    nothing is kept. With `force`, what can't be read has no tools any more, and a source that has
    lost many is believed.

    Raises:
        InputError: no run there, one of a dataset, one without tools, or no source can be read.
        ToolbankError: no source can be read now, or one gives under half of its former tools;
            another process holds the folder.
    """
    folder = open_run(run)
    file = load_recipe(str(run))
    if file.recipe.dataset is not None:
        raise InputError(
            f"{run}: a run on a dataset, which has no sources to be read again."
        )
    if not (folder.bank / "tools.parquet").is_file():
        raise InputError(f"{run}: has no tools yet. {advise_to_finish(run)}")
    with using_assets(file, folder):
        return _refresh(file, folder, dry_run=dry_run, force=force)


def refuse_outdated(folder: RunFolder) -> None:
    """Refuse to hand on requests that the next run changes.

    Raises:
        InputError: a refresh has removed tools that they need, or their verified labels are those
            of an earlier state of the run.
    """
    if lost := _count_lost(folder, read_catalogue(folder), in_splits=True):
        raise InputError(
            f"{folder.path}: {count(lost, 'request')} of its splits "
            f"{'needs a tool that is' if lost == 1 else 'need tools that are'} gone by a refresh. "
            f"First: {command('run', folder.path)}"
        )
    if not (folder.grades.is_file() or folder.verified.is_file()):
        return
    file = load_recipe(str(folder.recipe))
    with using_assets(file, folder):
        for stage in VerifyStage.of(file.recipe, folder):
            if not stage.is_current:
                why = stage.explain_todo() or "the stage verify was not completed"
                raise InputError(
                    f"{folder.path}: its verified labels are those of an earlier state of the run "
                    f"({why}). First: {command('run', folder.path)} --until verify"
                )


def _refresh(
    file: RecipeFile, folder: RunFolder, *, dry_run: bool, force: bool
) -> Refreshed:
    folder.check()
    stage = SourcesStage(file.recipe, folder)
    before = read_catalogue(folder)
    check_stages(file, [stage], [stage.name])
    require_consent(stage.sends(), stage.name)
    stage.prepare()
    collected, failed = _collect(file, folder, dry_run=dry_run, force=force)
    if not force and (loss := explain_loss(folder, collected)):
        raise ToolbankError(loss)
    changes = compare_tools(before.tools, collected.tools)
    catalogue = _foresee(file.recipe, folder, before, collected.tools)
    kept = not dry_run and not (catalogue == before and stage.is_done)
    if kept:
        with folder.locked():
            if read_catalogue(folder) != before:
                raise ToolbankError(
                    f"{folder.path}: another process has changed its tools meanwhile. Try again."
                )
            files = keep_tools(file.recipe, folder, collected)
            # A source that is gone has no version: its stage is not done.
            with suppress(InputError):
                keep_assets(folder, stage)
                stage.stamp(stage.depends(), files, complete=True)
    return Refreshed(
        file.recipe,
        folder,
        changes,
        catalogue,
        _count_lost(folder, catalogue),
        (*collected.notes, *collected.problems),
        kept,
        unread=failed if force else (),
        stale=() if force else collected.unread,
    )


def compare_tools(old: Sequence[Tool], new: Sequence[Tool]) -> Changes:
    """Compare two lists of tools by name, field by field."""
    before = {tool.name: tool for tool in old}
    after = {tool.name: tool for tool in new}
    changed = {
        name: fields
        for name, tool in after.items()
        if name in before and (fields := _differing(before[name], tool))
    }
    added = tuple(tool for tool in new if tool.name not in before)
    return Changes(
        added,
        tuple(tool for tool in old if tool.name not in after),
        changed,
        len(new) - len(added) - len(changed),
    )


def _collect(
    file: RecipeFile, folder: RunFolder, *, dry_run: bool, force: bool
) -> tuple[ToolCollection, tuple[str, ...]]:
    """What the sources give, and the labels of those that can't be read."""
    with tempfile.TemporaryDirectory() as aside:
        cache = folder.cache
        if dry_run:
            cache = Path(aside, cache.name)
            if folder.cache.is_dir():
                shutil.copytree(folder.cache, cache)
        try:
            former = () if force else former_tools(folder)
            read, failed = collect_anew(file.recipe.sources, cache, former)
            collected = keep_labels(folder, read)
        except ToolbankError as error:
            raise type(error)(f"{error}\nNothing was changed.") from error
    return collected, tuple(failed)


def _foresee(
    recipe: Recipe, folder: RunFolder, before: Catalogue, tools: tuple[Tool, ...]
) -> Catalogue:
    """The catalogue that there is once these tools are kept."""
    if tools == before.tools:
        return before
    if not has_begun(folder):
        return Catalogue(tools)
    return before.followed_by(tools, count_begun(recipe, folder, before))


def _count_lost(
    folder: RunFolder, catalogue: Catalogue, *, in_splits: bool = False
) -> int:
    """Count the requests of the bank, or of its splits alone, that need a tool that is gone."""
    path, gone = folder.bank / "queries.parquet", catalogue.find_gone()
    if not gone or not path.is_file():
        return 0
    queries = read_frame(path)
    return sum(
        not gone.isdisjoint(names) and (bool(split) or not in_splits)
        for split, names in zip(queries["split"], queries["tools"], strict=True)
    )


def _differing(before: Tool, after: Tool) -> tuple[str, ...]:
    return tuple(
        name
        for name in Tool.model_fields
        if name not in _DERIVED and getattr(before, name) != getattr(after, name)
    )
