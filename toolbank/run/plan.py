"""What a run will do before it does it: its calls, tokens, money and trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.config.assets import looking_in
from toolbank.run.assets import note_unused
from toolbank.run.catalogue import keep_domain
from toolbank.run.folder import RunFolder
from toolbank.run.outlook import Outlook
from toolbank.run.recipe import RecipeFile, dump_recipe, load_recipe, place_replies
from toolbank.run.run import (
    RecipeComparison,
    check_stages,
    compare_with_run,
    explain_todo,
)
from toolbank.run.stages import make_stages
from toolbank.run.stages.dataset import note_left_out, read_dataset, suit_dataset
from toolbank.run.stages.sources import current_tools, has_same_sources, kept_tools
from toolbank.system.consent import explain_missing, find_missing
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.run.stage import Stage


def describe_plan(recipe: RecipeFile, out: Path) -> str:
    """Say which stages are to be run, what will be asked of which model, what is trained.

    No model is called, and nothing is downloaded; whether the hub has an encoder is asked. A site
    that was not crawled yet is crawled; its pages are kept in the run folder. Tools that were read
    by the same sources are not read again.

    Raises:
        InputError: the recipe asks for what can't be, as a run would say it.
        ToolbankError: the journal is damaged.
    """
    folder = RunFolder(out)
    folder.check()
    kept = place_replies(recipe.recipe, recipe.path, folder.path)
    given = replace(recipe, recipe=keep_domain(kept, folder))
    recipe = suit_dataset(given, folder)
    stages = make_stages(recipe.recipe, folder)
    with recipe.at_work():
        comparison = compare_with_run(recipe, folder, stages)
        with looking_in(comparison.folders):
            todo = explain_todo(stages)
            if comparison.others:
                todo = {stage.name: todo.get(stage.name, "") for stage in stages}
            check_stages(recipe, stages, list(todo))
            lines = [f"{recipe.recipe.name}, in {out}"]
            lines += _note_comparison(recipe, out, comparison)
            if lost := folder.explain_lost_stamps():
                lines.append(f"  {lost}")
            lines += [
                f"  {stage.name:<24} {_describe_todo(todo.get(stage.name))}"
                for stage in stages
            ]
            lines += [
                f"  {note}" for note in note_left_out(given.recipe, recipe.recipe)
            ]
            to_run = [stage for stage in stages if stage.name in todo]
            lines += [f"  {note}" for note in note_unused(recipe.recipe, to_run)]
            lines += _list_missing_grants(to_run)
            read = partial(_read_bank, recipe, folder)
            outlook = Outlook(recipe.recipe, folder, todo, read)
            for stage in to_run:
                paragraph = list(stage.plan(outlook))
                lines += ["", *paragraph] if paragraph else []
    return "\n".join(lines)


def _describe_todo(why: str | None) -> str:
    """Whether a stage is done, or why it has to be run again."""
    if why is None:
        return "done"
    return f"to do again: {why}" if why else "to do"


def _note_comparison(
    recipe: RecipeFile, out: Path, comparison: RecipeComparison
) -> list[str]:
    """That the folder is another recipe's, or was made with other prompts or settings."""
    others = comparison.others
    if not others:
        if not comparison.changes:
            return _note_other_settings(recipe, out)
        return [
            "  The folder was made with other files than the recipe has now. A run needs --replace,",
            f"  which moves what follows from them to {out / 'replaced'}, or another --out.",
            *(
                f"    {line}"
                for change in comparison.changes
                for line in change.describe().splitlines()
            ),
            "  To go on with the run's own files:",
            f"  {command('plan', out)}",
        ]
    return [
        "  The folder holds what another recipe has made. A run needs --replace, which moves that",
        f"  to {out / 'replaced'}, or another --out.",
        *(f"    {line}" for line in others),
    ]


def _note_other_settings(recipe: RecipeFile, out: Path) -> list[str]:
    """That the folder was made with other settings than these, such as by --set."""
    if not is_run_folder(out):
        return []
    try:
        # The run's prompts are its own.
        left = load_recipe(str(out)).recipe
        left = left.model_copy(update={"prompts": recipe.recipe.prompts})
        if dump_recipe(left, out) == dump_recipe(recipe.recipe, out):
            return []
    except InputError:
        return []
    return [
        "  The folder's last run had other settings. What it would do with them:",
        f"  {command('plan', out)}",
    ]


def _list_missing_grants(stages: Sequence[Stage]) -> list[str]:
    """The grants that a run would ask for, or without a terminal be refused for."""
    wanted = {grant: stage.name for stage in stages[::-1] for grant in stage.sends()}
    if not (missing := find_missing(wanted)):
        return []
    names = ", ".join(dict.fromkeys(wanted[grant] for grant in missing))
    return [f"  {line}" for line in explain_missing(missing, names).splitlines()]


def _read_bank(file: RecipeFile, folder: RunFolder) -> tuple[Bank, Sequence[str]]:
    """The dataset; or the tools as they were read last from the same sources, or else read now."""
    recipe = file.recipe
    if recipe.dataset is not None:
        return read_dataset(recipe), ()
    is_same = has_same_sources(recipe, folder)
    read = kept_tools(folder) if is_same else current_tools(recipe, folder, file.path)
    return Bank(tuple(read.tools)), read.notes
