"""`toolbank refresh`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolbank.bank.bank import Bank
from toolbank.commands.options import RunArgument, echo
from toolbank.run.assets import using_assets
from toolbank.run.forecast import describe_forecast, format_paragraph
from toolbank.run.outlook import Outlook, expect_asks
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.run import find_todo
from toolbank.run.stages import make_stages
from toolbank.run.stages.asking import WritingStage
from toolbank.run.stages.fit import describe_trainings, plan_trainings
from toolbank.run.stages.generate import GenerateStage
from toolbank.run.stages.sources import SourcesStage
from toolbank.system.numbers import count
from toolbank.system.terminal import command, one_line

if TYPE_CHECKING:
    from toolbank.run.refresh import Refreshed
    from toolbank.training.config import TrainingPlan


_LONGEST = 160


def describe(refreshed: Refreshed) -> Iterator[str]:
    """What changed, a line each, and what the next run takes.

    Raises:
        InputError: a prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    changes, run = refreshed.changes, refreshed.folder.path
    yield (
        f"{run}: {len(changes.added):,} added, {len(changes.removed):,} removed, "
        f"{len(changes.changed):,} changed, {changes.same:,} the same"
    )
    for sign, tools in (("+", changes.added), ("-", changes.removed)):
        for tool in tools:
            yield one_line(f"{sign} {tool.name}: {tool.summary}", _LONGEST)
    for name, fields in changes.changed.items():
        yield one_line(f"~ {name}: {', '.join(fields)}", _LONGEST)
    yield from (f"  {problem}" for problem in refreshed.problems)
    if refreshed.stale:
        stale = one_line(", ".join(refreshed.stale), _LONGEST)
        yield (
            f"Could not be read, and keeps the tools that it had: {stale}. To take these out of the "
            f"run: {command('refresh', run)} --force"
        )
    if lost := refreshed.lost_requests:
        requests = count(lost, "request needs", "requests need")
        yield (
            f"{requests} a tool that is gone: not used for training and test, and kept on file."
        )
    if changes.added or changes.removed or changes.changed:
        yield (
            "Packed finders keep the tools that they were packed with. To have these: "
            f"{command('pack', run)} --out FINDER"
        )
    todo = _find_todo(refreshed)
    if not todo:
        yield "Nothing is left to do."
        return
    if refreshed.catalogue.earlier:
        yield (
            f"Requests from attempt {refreshed.catalogue.begins:,} on are dealt from these tools; "
            "none before it is asked for again."
        )
    kept = "" if refreshed.kept else "Nothing was written. "
    next_ = command("run", run)
    if refreshed.unread:
        unread = one_line(", ".join(refreshed.unread), _LONGEST)
        next_ = (
            f"take {unread} out of {refreshed.folder.recipe}, as a run reads all of it; then "
            f"{next_} --replace"
        )
    yield f"{kept}To do: {', '.join(_by_kind(todo))}. Next: {next_}"
    for paragraph in _describe_cost(refreshed, todo):
        yield from ["", *paragraph] if paragraph else []


def summarise(refreshed: Refreshed) -> dict[str, Any]:
    """The same as JSON; tools by their names.

    Raises:
        InputError: a prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    changes, todo = refreshed.changes, _find_todo(refreshed)
    outlook = _look_ahead(refreshed, todo)
    calls = {}
    for stage in _list_writing(outlook):
        if forecast := stage.forecast(outlook):
            sent, received = map(round, forecast.tokens(most=True))
            calls[stage.name] = {
                "calls": forecast.calls(most=True),
                "prompt_tokens": sent,
                "completion_tokens": received,
            }
    trainings = _plan_trainings(refreshed, todo)
    return {
        "run": str(refreshed.folder.path),
        "added": [tool.name for tool in changes.added],
        "removed": [tool.name for tool in changes.removed],
        "changed": {name: list(fields) for name, fields in changes.changed.items()},
        "same": changes.same,
        "requests_left_out": refreshed.lost_requests,
        "first_attempt": refreshed.catalogue.begins,
        "problems": list(refreshed.problems),
        "stale": list(refreshed.stale),
        "written": refreshed.kept,
        "todo": todo,
        "calls": calls,
        "training_steps": {each.title: each.steps for each in trainings},
    }


def _find_todo(refreshed: Refreshed) -> list[str]:
    """The stages that the next run has to do; what was not kept counts as if it were."""
    stages = make_stages(refreshed.recipe, refreshed.folder)
    changes = refreshed.changes
    if refreshed.kept or not (changes.added or changes.removed or changes.changed):
        return find_todo(stages)
    return [stage.name for stage in stages if stage.kind != SourcesStage.kind]


def _by_kind(todo: list[str]) -> Iterator[str]:
    """Such as "asks, 3 retrievers, report"."""
    kinds = Counter(stage.partition("/")[0] for stage in todo)
    for kind, number in kinds.items():
        yield kind if number == 1 else f"{number} {kind}"


def _describe_cost(refreshed: Refreshed, todo: list[str]) -> Iterator[list[str]]:
    outlook = _look_ahead(refreshed, todo)
    for stage in _list_writing(outlook):
        if not isinstance(stage, GenerateStage):
            yield list(stage.plan(outlook))
        elif (forecast := stage.forecast(outlook)) and (
            calls := forecast.calls(most=True)
        ):
            yield [
                "Requests, as far as the journal lacks them:",
                *format_paragraph("calls", f"at most {calls:,}"),
                *describe_forecast(forecast, stage.config),
            ]
    yield list(describe_trainings(_plan_trainings(refreshed, todo), exact=False))


def _look_ahead(refreshed: Refreshed, todo: list[str]) -> Outlook:
    """What the next run will have."""
    recipe, folder, tools = refreshed.recipe, refreshed.folder, refreshed.catalogue
    return Outlook(recipe, folder, todo, lambda: (Bank(tools.tools), ()), tools)


def _list_writing(outlook: Outlook) -> list[WritingStage]:
    """The stages to do that have requests and asks written."""
    stages = make_stages(outlook.recipe, outlook.folder)
    writing = (stage for stage in stages if isinstance(stage, WritingStage))
    return [stage for stage in writing if stage.name in outlook.todo]


def _plan_trainings(refreshed: Refreshed, todo: list[str]) -> list[TrainingPlan]:
    """The trainings of the retrievers to do, on the bank that there will be."""
    recipe, folder = refreshed.recipe, refreshed.folder
    if not (folder.bank / "bank.json").is_file():
        return []
    bank = replace(Bank.load(folder.bank), tools=refreshed.catalogue.tools)
    bank = bank.without_missing_tools()
    return plan_trainings(recipe, todo, expect_asks(recipe, bank, to_write=True))


def refresh(
    run: RunArgument,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List what would change, and change nothing."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object in place of text.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Accept the result even if a source fails or has lost over half of its tools.",
        ),
    ] = False,
) -> None:
    """Read a run's sources again, and apply and list changes, without calling a model."""
    refreshed = refresh_run(run, dry_run=dry_run, force=force)
    with using_assets(load_recipe(str(run)), refreshed.folder):
        if as_json:
            typer.echo(json.dumps(summarise(refreshed), ensure_ascii=False))
        else:
            echo("\n".join(describe(refreshed)))
