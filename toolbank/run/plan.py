"""Plan a run: its stages, calls, tokens, cost and trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.config.assets import looking_in
from toolbank.run.assets import note_unused
from toolbank.run.folder import RunFolder
from toolbank.run.forecast import format_paragraph
from toolbank.run.outlook import Outlook
from toolbank.run.recipe import RecipeFile, dump_recipe, load_recipe
from toolbank.run.rounds import describe_rounds
from toolbank.run.run import (
    RecipeComparison,
    check_stages,
    compare_with_run,
    explain_todo,
    fit_to_folder,
)
from toolbank.run.stages import make_stages
from toolbank.run.stages.dataset import read_dataset
from toolbank.run.stages.sources import current_tools, has_same_sources, kept_tools
from toolbank.system.consent import explain_missing, find_missing
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.run.stage import Stage


def describe_plan(recipe: RecipeFile, out: Path) -> str:
    """Describe what a run will do: its stages, calls, tokens, cost and trainings.

    Calls no model, and downloads nothing. A site that is not crawled yet is crawled; its pages
    stay in the run folder. Tools already read from the same sources are not read again.

    Raises:
        InputError: the recipe cannot be run, with the message of a run.
        ToolbankError: the journal is damaged.
    """
    with planning(recipe, out) as planned:
        recipe, todo, folder = planned.recipe, planned.todo, planned.outlook.folder
        lines = [f"{recipe.recipe.name}, in {out}"]
        differences = planned.comparison.explain(out, "plan")
        differences = differences or _note_other_settings(recipe, out)
        lines += [f"  {line}" for line in differences]
        if lost := folder.explain_lost_stamps():
            lines.append(f"  {lost}")
        lines += [
            f"  {stage.name:<24} {_describe_todo(stage, todo.get(stage.name))}"
            for stage in planned.stages
        ]
        to_run = planned.to_run
        notes = [*planned.notes, *note_unused(recipe.recipe, to_run)]
        lines += [f"  {note}" for note in notes]
        lines += _list_missing_grants(to_run)
        for stage in to_run:
            paragraph = list(stage.plan(planned.outlook))
            lines += ["", *paragraph] if paragraph else []
        if rounds := describe_rounds(to_run):
            lines += ["", "Batches", *format_paragraph("rounds", rounds)]
    return "\n".join(lines)


@dataclass(frozen=True)
class PlannedRun:
    """What a run will do: its stages, why each of `todo` runs, and what it will have."""

    recipe: RecipeFile
    notes: Sequence[str]
    stages: Sequence[Stage]
    comparison: RecipeComparison
    todo: Mapping[str, str]
    outlook: Outlook

    @property
    def to_run(self) -> list[Stage]:
        """The stages that will run."""
        return [stage for stage in self.stages if stage.name in self.todo]


@contextmanager
def planning(recipe: RecipeFile, out: Path) -> Iterator[PlannedRun]:
    """Find what a run will do; in the block, its recipe and assets are in use.

    Raises:
        InputError: as of `describe_plan`.
    """
    folder = RunFolder(out)
    folder.check()
    recipe, notes = fit_to_folder(recipe, folder)
    stages = make_stages(recipe.recipe, folder)
    with recipe.at_work():
        comparison = compare_with_run(recipe, folder, stages)
        with looking_in(comparison.folders):
            todo = explain_todo(stages)
            if comparison.others:
                todo = {stage.name: todo.get(stage.name, "") for stage in stages}
            check_stages(recipe, stages, list(todo))
            read = partial(_read_bank, recipe, folder)
            outlook = Outlook(recipe.recipe, folder, todo, read)
            yield PlannedRun(recipe, notes, stages, comparison, todo, outlook)


def _describe_todo(stage: Stage, why: str | None) -> str:
    """Describe whether a stage is done or waits for replies, or why it has to run again."""
    if why is None:
        return "done"
    if file := stage.find_pending_file():
        return f"waits for the replies to {file}"
    return f"to do again: {why}" if why else "to do"


def _note_other_settings(recipe: RecipeFile, out: Path) -> list[str]:
    """Note that the folder was made with other settings, such as those of --set."""
    if not is_run_folder(out):
        return []
    try:
        last = load_recipe(str(out)).recipe
        last = last.model_copy(update={"prompts": recipe.recipe.prompts})
        if dump_recipe(last, out) == dump_recipe(recipe.recipe, out):
            return []
    except InputError:
        return []
    return [
        f"The folder's last run had other settings. To plan with them: {command('plan', out)}"
    ]


def _list_missing_grants(stages: Sequence[Stage]) -> list[str]:
    """List the permissions that a run would ask for."""
    wanted = {grant: stage.name for stage in stages[::-1] for grant in stage.sends()}
    if not (missing := find_missing(wanted)):
        return []
    names = ", ".join(dict.fromkeys(wanted[grant] for grant in missing))
    return [f"  {line}" for line in explain_missing(missing, names).splitlines()]


def _read_bank(file: RecipeFile, folder: RunFolder) -> tuple[Bank, Sequence[str]]:
    """Read the dataset; or the tools, as last read from the same sources or now."""
    recipe = file.recipe
    if recipe.dataset is not None:
        return read_dataset(recipe), ()
    is_same = has_same_sources(recipe, folder)
    read = kept_tools(folder) if is_same else current_tools(recipe, folder, file.path)
    return Bank(tuple(read.tools)), read.notes
