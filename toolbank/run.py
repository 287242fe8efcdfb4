"""Running a recipe: what is done already stays, what is stale is made again."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from toolbank.errors import InputError, ToolbankError
from toolbank.files import read_json, write_text
from toolbank.folder import RunFolder, stage_key
from toolbank.recipe import RecipeFile, dump_recipe
from toolbank.stages import STAGES, Stage, make_stages


@dataclass(frozen=True)
class RunResult:
    """The folder of a run, and which of its stages were run this time."""

    folder: RunFolder
    did: tuple[str, ...]


def run_recipe(
    recipe: RecipeFile,
    out: Path | str,
    *,
    start: str | None = None,
    until: str | None = None,
) -> RunResult:
    """Run the stages that are not done yet, `start` in any case, up to `until`.

    Raises:
        InputError: the recipe asks for something that can't be.
        ToolbankError: a stage failed or was interrupted; what was done stays, and the next run
            goes on from it.
    """
    folder = RunFolder(Path(out))
    first = STAGES.index(start) if start else 0
    last = STAGES.index(until) if until else len(STAGES) - 1
    if first > last:
        raise InputError(f"--from {start} comes after --until {until}.")
    did = []
    with folder.locked():
        for note in recipe.notes:
            _say(note)
        write_text(folder.recipe, _resolved(recipe))
        for stage in make_stages(recipe.recipe, folder):
            position = STAGES.index(stage.name.partition("/")[0])
            if first <= position <= last:
                try:
                    ran = _run_stage(stage, folder, anew=STAGES[position] == start)
                except KeyboardInterrupt as error:
                    raise ToolbankError(
                        f"stopped in stage {stage.name}. What was done is kept in {out}; "
                        "the same command goes on from there."
                    ) from error
                if ran:
                    did.append(stage.name)
    return RunResult(folder, tuple(did))


def describe_result(result: RunResult) -> str:
    """The table of the run's metrics, as far as it got, and where everything lies."""
    from toolbank.evaluation.table import format_notes, format_table

    folder = result.folder
    lines = []
    if folder.metrics.is_file() and folder.labels.is_file():
        lines += [format_table(read_json(folder.metrics)), ""]
        notes = format_notes(read_json(folder.labels))
        lines += [notes, ""] if notes else []
    if not result.did:
        lines.append("Everything was done already; nothing was run.")
    for path, told in (
        (folder.bank, "tools and queries"),
        (folder.models, 'retrievers; try: toolbank search {} "your request"'),
        (folder.metrics, "every figure with its interval"),
        (folder.report, "all of it for people"),
    ):
        if path.exists():
            lines.append(f"{path}: {told.format(folder.path)}")
    return "\n".join(lines)


def pending(recipe: RecipeFile, out: Path) -> dict[str, bool]:
    """Whether each stage is still to be run, by its name."""
    folder = RunFolder(out)
    waiting: dict[str, bool] = {}
    for stage in make_stages(recipe.recipe, folder):
        try:
            done = folder.is_done(stage.name, stage_key(stage.name, stage.depends()))
        except InputError:
            done = False
        waiting[stage.name] = not done
    return waiting


def _run_stage(stage: Stage, folder: RunFolder, *, anew: bool) -> bool:
    key = stage_key(stage.name, stage.depends())
    if not anew and folder.is_done(stage.name, key):
        _say(f"{stage.name:<24} done already")
        return False
    for name in folder.changed_files(stage.name, key):
        _say(f"{folder.path / name}: not as it was written; it is made again")
    begun = time.monotonic()
    outcome = stage.work()
    folder.stamp(stage.name, key, outcome.files, complete=outcome.complete)
    _say(f"{stage.name:<24} {outcome.message} ({time.monotonic() - begun:.1f} s)")
    return True


def _resolved(recipe: RecipeFile) -> str:
    header = f"# Resolved from {recipe.path.name}, sha256 {recipe.sha256}\n"
    return header + dump_recipe(recipe.recipe)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
