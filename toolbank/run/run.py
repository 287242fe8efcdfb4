"""Run a recipe: stages that are done and current are skipped."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.config.assets import AssetFolders, current_folders, looking_in
from toolbank.llm.engines.kind import release_engines
from toolbank.llm.journal import borrowing
from toolbank.llm.searches import copy_replies
from toolbank.llm.templates import check_template
from toolbank.run.assets import (
    AssetChange,
    find_changes,
    find_differences,
    inputs_here,
    is_edited,
    keep_assets,
    note_unused,
    read_kept,
    write_origin,
)
from toolbank.run.catalogue import keep_prompts
from toolbank.run.folder import KEPT_KINDS, RunFolder
from toolbank.run.recipe import RESOLVED, RecipeFile, dump_recipe, place_replies
from toolbank.run.rounds import run_in_rounds
from toolbank.run.stage import Outcome, Stage
from toolbank.run.stages import find_leftovers, make_stages
from toolbank.run.stages.dataset import fit_to_dataset
from toolbank.run.version_0_7 import store_grades
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, InterruptedByUserError
from toolbank.system.extras import naming_extras
from toolbank.system.files import write_text
from toolbank.system.folders import set_aside
from toolbank.system.terminal import advise_to_finish, command, print_message

if TYPE_CHECKING:
    from toolbank.llm.stop import EarlyEnd

# Where the message of a stage begins, after its name.
_MESSAGE_COLUMN = 25


@dataclass(frozen=True)
class RunResult:
    """The folder of a run, the stages that were run, and those still to do.

    `waiting` says what the user has to do before a waiting stage can go on. `ended_early` says
    which budget is spent, and how to raise it. `lacks` says what the stages lack, such as "412 of
    500 queries".
    """

    folder: RunFolder
    did: tuple[str, ...]
    todo: tuple[str, ...]
    waiting: str = ""
    ended_early: EarlyEnd | None = None
    lacks: tuple[str, ...] = ()


@naming_extras()
def run_recipe(
    recipe: RecipeFile,
    out: Path | str,
    *,
    start: str | None = None,
    until: str | None = None,
    replace: bool = False,
    siblings: Sequence[RunFolder] = (),
    send_only: bool = False,
) -> RunResult:
    """Run the stages that are not done yet, and `start` in any case, up to `until`.

    If `start` names several stages and all are done, run them all again. Otherwise run only the
    unfinished ones, so an interrupted run resumes. A stage that has to wait ends the run without
    an error. With `replace`, move the results of another recipe to replaced/; the journal stays.
    Results and replies that runs of `siblings` have are copied. With `send_only`, stages that send
    rounds do not wait for the replies.

    Raises:
        InputError: the recipe cannot be run, the stages before `start` are not done, or the
            folder belongs to another recipe or is not a run.
        ToolbankError: a stage failed; the next run goes on from there.
        Interrupted: a stage was stopped; the message says what is kept.
    """
    folder = RunFolder(Path(out))
    with recipe.at_work():
        folder.check()
        recipe, notes = fit_to_folder(recipe, folder)
        stages = make_stages(recipe.recipe, folder)
        chosen = _choose(recipe, stages, start, until)
        comparison = compare_with_run(recipe, folder, stages)
        if not replace:
            comparison.require_none(folder)
        run_stage = partial(_run_stage, siblings=siblings, send_only=send_only)
        others = (one.path for one in siblings)
        with looking_in(comparison.folders), borrowing(others):
            return _run_chosen(
                recipe, notes, stages, chosen, start, comparison, run_stage
            )


def fit_to_folder(
    recipe: RecipeFile, folder: RunFolder
) -> tuple[RecipeFile, list[str]]:
    """Adapt a recipe to its run folder and its dataset; the notes name removed retrievers.

    Raises:
        InputError: it names files outside of the folder, or its dataset cannot be used.
    """
    placed = place_replies(recipe.recipe, recipe.path, folder.path)
    given = dataclasses.replace(recipe, recipe=keep_prompts(placed, folder))
    fitted, notes = fit_to_dataset(given, folder)
    if recipe.recipe.sweep:
        sweep = command("sweep", recipe.path)
        notes.append(f"sweep: not used here; for a run of each combination: {sweep}")
    return fitted, notes


def find_todo(stages: Sequence[Stage]) -> list[str]:
    """List the stages that are not done, and those that need one of them."""
    return list(explain_todo(stages))


def explain_todo(stages: Sequence[Stage]) -> dict[str, str]:
    """Explain, by stage to be run, why it has to run again; "" if it has never run."""
    todo: dict[str, str] = {}
    stale: dict[str, str] = {}
    for stage in stages:
        before = next((stale[name] for name in stage.needs if name in stale), "")
        if before or not stage.is_done:
            why = stage.explain_todo()
            if before and not (why or stage.folder.find_unended([stage.name])):
                why = f"{before} is run again"
            todo[stage.name] = why
            stale |= dict.fromkeys((stage.kind, stage.name), stage.name)
    return todo


@dataclass(frozen=True)
class RecipeComparison:
    """How a recipe differs from the run in a folder, and which assets to use.

    `others` says what makes it another recipe, one line each. `changes` are assets that differ
    from the run's. `own` finds the recipe's assets; `folders` finds the run's first, and the
    recipe's in place of changed ones.
    """

    others: tuple[str, ...]
    changes: tuple[AssetChange, ...]
    own: AssetFolders
    folders: AssetFolders

    def explain(self, path: Path, command_name: str) -> list[str]:
        """Explain the difference and what to do about it, one line each; none if there is none."""
        if not (self.others or self.changes):
            return []
        changes = [c for one in self.changes for c in one.describe().splitlines()]
        lines = [f"{path}: made by another recipe.", *(f"  {o}" for o in self.others)]
        if not self.others:
            lines = [
                f"{path}: made with other prompts or crawlers; nothing was changed."
            ]
            own = command(command_name, path)
            changes += ["To continue with the run's own files:", f"  {own}"]
        return [
            *lines,
            *changes,
            "Or give another folder with --out, or add --replace to `toolbank run`: it moves the "
            f"results concerned to {path / 'replaced'} and keeps the journal.",
        ]

    def require_none(self, folder: RunFolder) -> None:
        """Refuse a recipe that differs.

        Raises:
            InputError: explains the difference.
        """
        if lines := self.explain(folder.path, "run"):
            raise InputError("\n".join(lines))


def compare_with_run(
    recipe: RecipeFile, folder: RunFolder, stages: Sequence[Stage]
) -> RecipeComparison:
    """Compare the recipe in use with the run in a folder."""
    own, kept = current_folders(), read_kept(folder, stages)
    with looking_in(kept.folders):
        others = find_differences(recipe.recipe, stages)
    if others and recipe.path.resolve() != folder.recipe.resolve():
        # Everything is made again, with the recipe's own assets.
        return RecipeComparison(tuple(others), (), own, own)
    # With the run's own recipe, the run's assets count, whatever `--set` changes.
    changes = find_changes(kept, stages)
    folders = kept.accept(changes)
    if others:
        folders = dataclasses.replace(folders, sealed=frozenset())
    return RecipeComparison(tuple(others), tuple(changes), own, folders)


def _run_chosen(
    recipe: RecipeFile,
    notes: Sequence[str],
    stages: Sequence[Stage],
    chosen: Sequence[Stage],
    start: str | None,
    comparison: RecipeComparison,
    run_stage: Callable[[Stage, bool], Outcome | None],
) -> RunResult:
    folder, others = stages[0].folder, comparison.others
    # With another recipe, every stage runs again.
    todo = [stage.name for stage in stages] if others else find_todo(stages)
    to_run = check_stages(recipe, chosen, [*todo, start])
    for stage in to_run:
        require_consent(stage.sends(), stage.name)
    for stage in to_run:
        stage.prepare()
    if start:
        _require_before(recipe, start, stages, todo)
    if not (start or others or folder.is_writable) and not any(
        stage.name in todo for stage in chosen
    ):
        return RunResult(folder, (), tuple(todo))
    for stage in chosen if others else ():
        stage.read_ahead()
    folder_note = folder.explain_lost_stamps()
    with folder.locked():
        store_grades(folder, recipe.recipe)
        # Another process may have run meanwhile.
        with looking_in(comparison.own):
            found = compare_with_run(recipe, folder, stages)
        if (found.others, found.changes) != (others, comparison.changes):
            found.require_none(folder)
        if start and not others:
            _require_before(recipe, start, stages, find_todo(stages))
        resolved = _resolved(recipe, stages)
        if found.others:
            _replace(folder, found.folders)
        elif found.changes:
            _replace_changed(folder, found.changes, find_todo(stages))
        elif is_edited(folder):
            kept = set_aside(folder.path, [folder.recipe])
            print_message(
                f"{folder.recipe}: edited since; the earlier one is in {kept}"
            )
        if left := find_leftovers(recipe.recipe, folder):
            kept = set_aside(folder.path, left)
            for path in left:
                folder.forget(path)
                print_message(f"{path}: not of this recipe; moved to {kept}")
        for config in recipe.recipe.search_models:
            copy_replies(config)
        write_text(folder.recipe, resolved)
        write_origin(folder, recipe.recipe, inputs_here(stages, recipe.path))
        lines = [
            folder_note,
            f"{recipe.path}: yours, used" if recipe.own else "",
            *notes,
            *(note for stage in to_run for note in stage.notes()),
            *note_unused(recipe.recipe, to_run),
        ]
        for line in dict.fromkeys(filter(None, lines)):
            print_message(line)
        again = [stage.name for stage in stages if stage.kind == start]
        if len(again) > 1 and not set(again) & set(find_todo(stages)):
            folder.reopen(again)
        ended = folder.read_assets()
        names = {stage.name for stage in chosen}

        def run_one(stage: Stage) -> Outcome | None:
            with looking_in(keep_assets(folder, stage)):
                if stage.is_done and (changed := stage.refresh()):
                    folder.restamp(stage.name, changed)
                anew = again == [stage.name]
                return run_stage(stage, anew) if stage.name in names else None

        used = [stage for stage in stages if stage.name in {*names, *ended}]
        done = run_in_rounds(used, run_one)
    outcomes = done.values()
    return RunResult(
        folder,
        tuple(done),
        tuple(find_todo(stages)),
        "\n\n".join(one.waiting for one in outcomes if one.waiting),
        next((one.ended_early for one in outcomes if one.ended_early), None),
        tuple(one.lacks for one in outcomes if one.lacks),
    )


def check_stages(
    recipe: RecipeFile, stages: Sequence[Stage], todo: Sequence[str | None]
) -> list[Stage]:
    """Check the stages, and return those of `todo`.

    Raises:
        InputError: a file that the recipe names is missing or is written by the run, or a stage
            has settings that cannot work.
    """
    folder = stages[0].folder
    _require_prompts(recipe, folder)
    for config in recipe.recipe.search_models:
        if folder.is_written(config.replies):
            raise InputError(
                f"{recipe.path}: {config.section}.replies: the run itself writes {config.replies}. "
                "Give another name, such as `replies: replies.sqlite`."
            )
    for stage in stages:
        for path in stage.files():
            _refuse_own(recipe, stage, path)
            if not path.is_file():
                raise InputError(
                    f"{recipe.path}: it names {path}, and there is no such file."
                )
    to_run = [s for s in stages if s.name in todo or s.kind in todo]
    for stage in to_run:
        for path in stage.places():
            _refuse_own(recipe, stage, path)
        for asset in stage.all_assets():
            if asset.path.suffix == ".j2":
                check_template(asset.path)
        stage.check()
    return to_run


def _require_prompts(recipe: RecipeFile, folder: RunFolder) -> None:
    """Refuse a missing folder of prompts, unless the run has its own."""
    path = recipe.recipe.prompts
    if path is None or path.is_dir() or path == folder.path.resolve() / path.name:
        return
    if not current_folders().kept:
        raise InputError(
            f"{recipe.path}: prompts: {path}: no such folder. `toolbank init NAME --prompts` "
            "creates one; or remove the key."
        )


def _refuse_own(recipe: RecipeFile, stage: Stage, path: Path) -> None:
    if stage.folder.is_written(path):
        raise InputError(
            f"{recipe.path}: it reads {path}, which this run writes. Copy it elsewhere, or give "
            "another --out."
        )


def _choose(
    recipe: RecipeFile, stages: Sequence[Stage], start: str | None, until: str | None
) -> list[Stage]:
    """The stages from `start` up to `until`."""
    kinds = list(dict.fromkeys(stage.kind for stage in stages))
    for kind in (start, until):
        if kind and kind not in kinds:
            raise InputError(
                f"{recipe.path}: this recipe has no stage {kind}; there are: {', '.join(kinds)}."
            )
    first = kinds.index(start) if start else 0
    last = kinds.index(until) if until else len(kinds) - 1
    if first > last:
        raise InputError(f"--from {start} comes after --until {until}.")
    return [stage for stage in stages if first <= kinds.index(stage.kind) <= last]


def _replace_changed(
    folder: RunFolder, changes: Sequence[AssetChange], todo: Sequence[str]
) -> None:
    """Move changed assets of the run, and the files of the stages to do, to replaced/."""
    titles = [change.old.title for change in changes if change.old]
    used = {change.new.path.resolve() for change in changes if change.new}
    files = [folder.path / title for title in titles]
    # Keep a file of the run that the user has edited in place: it is the one to use.
    files = [path for path in files if path.resolve() not in used]
    kept = set_aside(folder.path, [*files, *folder.outputs(todo)])
    folder.reopen(todo, outputs={})
    if kept:
        print_message(f"{folder.path}: the earlier results are in {kept}")


def _replace(folder: RunFolder, folders: AssetFolders) -> None:
    """Move all results to replaced/; copy assets that are used again."""
    used = [path.resolve() for path in folders.kept.values()]
    used += [folders.own_folder(kind).resolve() for kind in KEPT_KINDS]
    homes = [folder.path / kind for kind in KEPT_KINDS]
    stay = [
        home
        for home in homes
        if any(path.is_relative_to(home.resolve()) for path in used) and home.is_dir()
    ]
    kept = set_aside(folder.path, (path for path in folder.results if path not in stay))
    if kept:
        for home in stay:
            shutil.copytree(home, kept / home.name, symlinks=True)
    print_message(f"{folder.path}: the results of the other recipe are in {kept}")


def _require_before(
    recipe: RecipeFile, start: str, stages: Sequence[Stage], todo: Sequence[str]
) -> None:
    """Refuse to start with a stage while one that it needs is in `todo`."""
    needed = {start}
    for stage in reversed(stages):
        if needed & {stage.kind, stage.name}:
            needed.update(stage.needs)
    folder = stages[0].folder
    advise = advise_to_finish(folder.path)
    if recipe.path.resolve() != folder.recipe.resolve():
        out = shlex.quote(str(folder.path))
        advise = f"{advise_to_finish(recipe.path)} --out {out}"
    for stage in stages:
        is_before = stage.kind != start and needed & {stage.kind, stage.name}
        if is_before and stage.name in todo:
            raise InputError(
                f"{stage.folder.path}: the stage {stage.name} is not done under this recipe, and "
                f"comes before. {advise}"
            )


def _run_stage(
    stage: Stage, anew: bool, *, siblings: Sequence[RunFolder], send_only: bool
) -> Outcome | None:
    """Run a stage; None if it is done already, here or in a sibling."""
    folder, depends = stage.folder, stage.depends()
    if not anew and stage.is_done:
        print_message(f"{stage.name:<24} done already")
        return None
    if not anew and (taken := stage.take_result(siblings)):
        print_message(f"{stage.name:<24} as in {taken.path.name}")
        return None
    if send_only:
        stage = stage.send_only()
    changed = folder.changed_files(stage.name)
    aside = set_aside(folder.path, changed)
    for path in changed:
        where = f"; the changed file is in {aside}" if aside else ""
        print_message(
            f"{path}: changed since it was written, so it is made again{where}"
        )
    if not stage.asks_models:
        release_engines()
    begun = time.monotonic()
    try:
        outcome = stage.work()
    except KeyboardInterrupt as error:
        rest = (
            "Nothing is kept of this stage; the stages before it are kept. "
            "The same command starts it again."
        )
        if stage.keeps:
            rest = f"{stage.keeps} The same command goes on from there."
        raise InterruptedByUserError(
            f"stopped in stage {stage.name}. {str(error) or rest}"
        ) from error
    if outcome.files or not outcome.waiting:
        complete = not (outcome.lacks or outcome.waiting)
        stage.stamp(depends, outcome.files, complete=complete)
    took = f"({time.monotonic() - begun:.1f} s)"
    print_message(f"{stage.name:<24} {outcome.message} {took}", indent=_MESSAGE_COLUMN)
    for problem in outcome.problems:
        print_message(f"{'':<24} {problem}", indent=_MESSAGE_COLUMN)
    return outcome


def _resolved(recipe: RecipeFile, stages: Sequence[Stage]) -> str:
    """The recipe with all defaults, and in comments the hashes of it and its assets."""
    if recipe.path.resolve() == stages[0].folder.recipe.resolve():
        lines = recipe.path.read_text(encoding="utf-8").splitlines()
        origin = [line for line in lines[:1] if line.startswith(RESOLVED)]
    else:
        origin = [f"{RESOLVED}{recipe.path.name}, sha256 {recipe.sha256}"]
    assets = [asset for stage in stages for asset in stage.all_assets()]
    files = {f"# {asset.title}: sha256 {asset.sha256}" for asset in assets}
    # Custom prompts are kept in the run folder.
    has_own = any(asset.own and asset.kind == "prompts" for asset in assets)
    prompts = Path("prompts") if has_own else None
    own = recipe.recipe.model_copy(update={"prompts": prompts})
    dumped = dump_recipe(own, stages[0].folder.path)
    return "\n".join([*origin, *sorted(files), dumped])
