"""Running a recipe: what is done already stays, what is stale is made again."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbank.config.assets import find_asset, has_asset
from toolbank.generate.writers import find_writer
from toolbank.loaders.datasets import dataset_files
from toolbank.recipe import Recipe, RecipeFile, dump_recipe, recipe_files
from toolbank.run.engines import check_access, check_engine
from toolbank.run.folder import RunFolder, stage_key
from toolbank.run.prerequisites import check_retrievers
from toolbank.run.stage import Outcome, Stage
from toolbank.run.stages import make_stages
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json, write_text
from toolbank.system.terminal import say

_OPTION = re.compile(r"--set \S+")
# Where what a stage tells begins, after its name.
_TOLD = 25
# The stages that must be done before one can be started with; others may be missing.
_NEEDS = {
    "dataset": (),
    "sources": (),
    "generate": ("sources",),
    "judge": ("sources", "generate"),
    "retrievers": ("dataset", "sources", "generate"),
    "evaluate": ("dataset", "sources", "generate", "retrievers"),
    "report": ("dataset", "sources", "generate", "judge", "retrievers", "evaluate"),
}


@dataclass(frozen=True)
class RunResult:
    """The folder of a run, which stages were run this time, and which are still to do.

    `waiting` is not empty where a stage waits for something outside: what the user has to do.
    `ended_early` says which budget ended the generation, and how to raise it.
    """

    folder: RunFolder
    did: tuple[str, ...]
    todo: tuple[str, ...]
    waiting: str = ""
    ended_early: str = ""


def run_recipe(
    recipe: RecipeFile,
    out: Path | str,
    *,
    start: str | None = None,
    until: str | None = None,
) -> RunResult:
    """Run the stages that are not done yet, `start` in any case, up to `until`.

    A stage that waits for something outside ends the run, with nothing amiss.

    Raises:
        InputError: the recipe asks for something that can't be, or what `start` needs is not
            done under this recipe.
        ToolbankError: a stage failed or was interrupted; what was done stays, and the next run
            goes on from it.
    """
    folder = RunFolder(Path(out))
    chosen = _choose(recipe, start, until)
    if folder.path.exists() and not folder.path.is_dir():
        raise InputError(
            f"{out}: a file, and a run needs a folder. Give another --out."
        )
    for path in (p for stage in chosen for p in recipe_files(recipe.recipe, stage)):
        if not path.is_file():
            raise InputError(
                f"{recipe.path}: it names {path}, and there is no such file."
            )
    if recipe.recipe.dataset is not None and "dataset" in chosen:
        dataset_files(recipe.recipe.dataset)
    for name in chosen:
        check_engine(recipe.recipe, name)
    stages = make_stages(recipe.recipe, folder)
    todo = _todo(recipe.recipe, stages, folder)
    if "retrievers" in chosen:
        check_retrievers(
            [
                config
                for config in recipe.recipe.retrievers
                if start == "retrievers" or f"retrievers/{config.label}" in todo
            ]
        )
    for name in chosen:
        if name in todo or name == start:
            check_access(recipe.recipe, name)
    if start:
        _require(_NEEDS[start], stages, folder)
    did = []
    waiting = ended_early = ""
    lost = folder.explain_lost_stamps()
    with folder.locked():
        write_text(folder.recipe, _resolved(recipe, folder))
        for note in (*filter(None, [lost]), *_notes(recipe)):
            say(note)
        for stage in stages:
            _refresh(stage, folder)
            if stage.kind in chosen:
                try:
                    outcome = _run_stage(stage, folder, anew=stage.kind == start)
                except KeyboardInterrupt as error:
                    raise ToolbankError(
                        f"stopped in stage {stage.name}. What was done is kept in {out}; "
                        "the same command goes on from there."
                    ) from error
                if outcome is not None:
                    did.append(stage.name)
                    waiting = outcome.waiting
                    ended_early = ended_early or outcome.ended_early
            if waiting:
                break
    return RunResult(
        folder,
        tuple(did),
        tuple(_todo(recipe.recipe, stages, folder)),
        waiting,
        ended_early,
    )


def _choose(
    recipe: RecipeFile, start: str | None, until: str | None
) -> tuple[str, ...]:
    """The names of the stages from `start` up to `until`."""
    names = recipe.recipe.stages
    for name in (start, until):
        if name and name not in names:
            raise InputError(
                f"{recipe.path}: no stage {name} in this recipe, whose bank "
                f"{'comes from a dataset' if recipe.recipe.dataset else 'is made'}; "
                f"there are: {', '.join(names)}."
            )
    first = names.index(start) if start else 0
    last = names.index(until) if until else len(names) - 1
    if first > last:
        raise InputError(f"--from {start} comes after --until {until}.")
    return names[first : last + 1]


def describe_result(result: RunResult) -> str:
    """The table of the run's metrics, if it is of this bank, and where everything lies."""
    from toolbank.evaluation.table import (
        format_comparisons,
        format_notes,
        format_table,
    )

    folder = result.folder
    lines = []
    if "evaluate" in result.did or "evaluate" not in result.todo:
        lines += [format_table(read_json(folder.metrics)), ""]
        compared = format_comparisons(read_json(folder.comparisons))
        lines += [compared, ""] if compared else []
        notes = format_notes(read_json(folder.labels))
        lines += [notes, ""] if notes else []
    if result.waiting:
        lines += [result.waiting, ""]
    if not result.did:
        lines.append("Everything was done already; nothing was run.")
    has_queries = (folder.bank / "queries.parquet").exists()
    for path, told in (
        (folder.bank, "tools and queries" if has_queries else "tools"),
        (folder.models, 'retrievers; try: toolbank search {} "your request"'),
        (folder.metrics, "every figure with its interval"),
        (folder.hits, "what each retriever found for each query"),
        (folder.report, "all of it for people"),
    ):
        if path.exists():
            lines.append(f"{path}: {told.format(shlex.quote(str(folder.path)))}")
    if result.todo:
        todo = ", ".join(result.todo)
        options = _OPTION.findall(result.ended_early)
        command = ["toolbank run", shlex.quote(str(folder.path)), *options]
        lines += [
            f"The generation ended early: {result.ended_early}."
            if result.ended_early
            else f"Not done, or of an earlier bank or recipe: {todo}.",
            f"Next: {' '.join(command)}",
        ]
    return "\n".join(lines)


def pending(recipe: Recipe, out: Path) -> dict[str, bool]:
    """Whether each stage is still to be run, by its name."""
    folder = RunFolder(out)
    stages = make_stages(recipe, folder)
    todo = _todo(recipe, stages, folder)
    return {stage.name: stage.name in todo for stage in stages}


def _todo(recipe: Recipe, stages: Sequence[Stage], folder: RunFolder) -> list[str]:
    """The stages that are not done, and those that stand on one that is not."""
    built_on = {
        f"retrievers/{config.label}": [f"retrievers/{name}" for name in config.needs]
        for config in recipe.retrievers
    }
    todo: list[str] = []
    stale: set[str] = set()
    for stage in stages:
        needed = {*_NEEDS[stage.kind], *built_on.get(stage.name, ())}
        is_done = stale.isdisjoint(needed) and _is_done(stage, folder)
        if not is_done:
            todo.append(stage.name)
            stale |= {stage.kind, stage.name}
    return todo


def _is_done(stage: Stage, folder: RunFolder) -> bool:
    try:
        return folder.is_done(stage.name, stage_key(stage.name, stage.depends()))
    except InputError:
        return False


def _require(needed: Sequence[str], stages: Sequence[Stage], folder: RunFolder) -> None:
    for stage in stages:
        if stage.kind in needed and not _is_done(stage, folder):
            raise InputError(
                f"{folder.path}: the stage {stage.name} is not done under this recipe, and "
                f"it comes before. Run all that is missing: toolbank run RECIPE --out "
                f"{folder.path}"
            )


def _refresh(stage: Stage, folder: RunFolder) -> None:
    if stage.refresh and _is_done(stage, folder) and (changed := stage.refresh()):
        folder.restamp(stage.name, changed)


def _run_stage(stage: Stage, folder: RunFolder, *, anew: bool) -> Outcome | None:
    """What a stage left, or None where it was done already."""
    key = stage_key(stage.name, stage.depends())
    if not anew and folder.is_done(stage.name, key):
        say(f"{stage.name:<24} done already")
        return None
    for name in folder.changed_files(stage.name, key):
        say(f"{folder.path / name}: not as it was written; it is made again")
    begun = time.monotonic()
    outcome = stage.work()
    if not outcome.waiting:
        folder.stamp(stage.name, key, outcome.files, complete=outcome.complete)
    took = f"({time.monotonic() - begun:.1f} s)"
    say(f"{stage.name:<24} {outcome.message} {took}", indent=_TOLD)
    for problem in outcome.problems:
        say(f"{'':<24} {problem}", indent=_TOLD)
    return outcome


def _resolved(recipe: RecipeFile, folder: RunFolder) -> str:
    """The recipe with every default, and in comments where it is from."""
    from toolbank.generate.prompts import prompt_files

    if recipe.path.resolve() == folder.recipe.resolve():
        lines = recipe.path.read_text(encoding="utf-8").splitlines()
        origin = [line for line in lines[:1] if line.startswith("# Resolved from ")]
    else:
        origin = [f"# Resolved from {recipe.path.name}, sha256 {recipe.sha256}"]
    makes = "generate" in recipe.recipe.stages
    used = prompt_files(recipe.recipe.domain_name) if makes else {}
    files = [f"# {name}: sha256 {sha256}" for name, sha256 in used.items()]
    return "\n".join([*origin, *files, dump_recipe(recipe.recipe)])


def _notes(recipe: RecipeFile) -> list[str]:
    """Which files of the user's own are used in place of ours."""
    from toolbank.generate.prompts import prompt_notes

    notes = [f"{recipe.path}: yours, used"] if recipe.own else []
    for source in recipe.recipe.sources:
        name = f"{source.scope_name}.yaml"
        if (
            source.scope_name
            and has_asset("crawlers", name)
            and find_asset("crawlers", name).own
        ):
            notes.append(f"crawlers/{name}: yours, used")
    writes = "generate" in recipe.recipe.stages
    if writes and find_writer(recipe.recipe.generate).asks_model:
        notes += prompt_notes(recipe.recipe.domain_name)
    return notes
