"""`toolbank preview`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolbank.bank.split import Catalogue
from toolbank.commands.options import (
    OutOption,
    RecipeArgument,
    SetOption,
    echo,
    find_folder,
)
from toolbank.commands.transcript import format_attempt, format_prompt
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.llm.step import StepAnswer, StepRun
from toolbank.run.assets import using_assets
from toolbank.run.catalogue import keep_prompts
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe, load_recipe
from toolbank.run.stages import make_stages
from toolbank.run.stages.asking import WritingStage
from toolbank.run.stages.dataset import read_split
from toolbank.run.stages.sources import current_tools
from toolbank.system import aio
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, InterruptedByUserError, ToolbankError
from toolbank.system.folders import RUN, check_folder

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.step import Step


def preview_step(
    step: Step[Any, Any], pool: Pool, count: int, journal: Journal
) -> Iterator[str]:
    """Make a few attempts, and show all of each.

    Of an engine that answers in rounds, only the first prompt of each.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    if pool.in_rounds:
        section = step.config.section
        ending = (
            f"{pool.engine.name} answers in rounds. To see replies, ask an endpoint: "
            f"--set {section}.engine=openai --set {section}.options={{}}"
        )
        yield from _list_prompts(step, count, ending)
        return
    requests = {number: step.request(number) for number in step.sample(count)}
    answers: dict[int, StepAnswer[Any]] = {}
    stopped = _ask(step, pool, list(requests), answers)
    for number, request in requests.items():
        entries = list(journal.entries(request.attempt))
        failures = list(journal.failures(request.attempt))
        # One that was not begun is left out.
        if number in answers:
            ending = step.describe(answers[number])
        elif entries or failures:
            ending = "stopped before its end"
        else:
            continue
        lines = ending.splitlines()
        yield format_attempt(step.title(number), entries, failures, lines)
    if stopped is not None:
        raise stopped


def preview_prompts(
    stage: WritingStage, tools: tuple[Tool, ...], count: int
) -> Iterator[str]:
    """Show the prompts of a few attempts, and one of each later call; no model is called.

    A later call is about an example, because there is no draft without a reply.

    Raises:
        InputError: the recipe requires what the bank cannot provide.
    """
    step = stage.make_step(Catalogue(tools))
    kind = stage.config.engine
    ending = "not sent" if stage.reads_assets else f"not sent: {kind} calls no model"
    yield from _list_prompts(step, count, ending)
    for calls in step.sample_calls().calls[1:]:
        title = f"{calls.noun} of an example's draft"
        yield format_prompt(title, calls.requests[0], ending)


def _list_prompts(step: Step[Any, Any], count: int, ending: str) -> Iterator[str]:
    for number in step.sample(count):
        yield format_prompt(step.title(number), step.request(number), ending)


def _ask(
    step: Step[Any, Any],
    pool: Pool,
    numbers: Sequence[int],
    answers: dict[int, StepAnswer[Any]],
) -> ToolbankError | None:
    """Make the attempts of these numbers; gives what stopped them, if anything."""
    run = StepRun(step, pool)

    async def attempt(number: int) -> None:
        answers[number] = await run.attempt(number)

    async def work() -> None:
        attempts = map(attempt, numbers)
        async with pool.working():
            await pool.carry(lambda: next(attempts, None))

    try:
        aio.run(work())
    except ToolbankError as error:
        return error
    if pool.stop.cause == "interrupt":
        return InterruptedByUserError("stopped. Nothing is kept of a preview.")
    return ToolbankError(f"{pool.stop.message}.") if pool.stop else None


def preview_attempts(
    recipe: Recipe,
    out: Path,
    count: int,
    path: Path | None = None,
    *,
    prompts_only: bool = False,
) -> Iterator[str]:
    """Make the first `count` attempts of a recipe, and ask for `count` tools; show all of it.

    Of an engine that answers in rounds, such as `batch`, only the first prompt of each. With
    `prompts_only`, no engine is called or needed: no key, no package, no permission. Nothing
    is kept but the pages of a crawl, which are in the run folder's cache. `path` is the recipe's file,
    which advice names.

    Raises:
        InputError: the recipe asks for what can't be.
        ToolbankError: the endpoint refuses, or it was interrupted.
    """
    check_folder(out, RUN)
    folder = RunFolder(out)
    recipe = keep_prompts(recipe, folder)
    stages = [s for s in make_stages(recipe, folder) if isinstance(s, WritingStage)]
    if not stages:
        raise InputError(
            f"{recipe.name}: its queries come from a dataset; nothing is written that could "
            "be looked at before."
        )
    for stage in stages:
        stage.check()
        if not prompts_only:
            require_consent(stage.sends(), stage.name)
            stage.prepare()
    tools = tuple(
        current_tools(recipe, folder, path or Path(recipe.name)).tools
        if recipe.dataset is None
        else read_split(recipe).tools
    )
    if prompts_only:
        for stage in stages:
            yield from preview_prompts(stage, tools, count)
        return
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        context = EngineContext(tools, recipe.calls_seed, journal.path.parent)
        for stage in stages:
            pool = Pool(find_engine(stage.config), stage.config, journal, context)
            step = stage.make_step(Catalogue(tools), pool.engine)
            yield from preview_step(step, pool, count, journal)


def preview(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    count: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of attempts to show.")
    ] = 5,
    prompts_only: Annotated[
        bool,
        typer.Option(
            "--prompts-only",
            help="Show only the prompts, and call no model; needs no key.",
        ),
    ] = False,
) -> None:
    """Show a few prompts, their replies and the checks; keep nothing."""
    loaded = load_recipe(recipe, settings or ())
    folder = find_folder(recipe, out, loaded.recipe.name)
    # Of a run, its own prompts are shown; of a recipe, those that it has now.
    is_run = loaded.path.parent == folder
    with using_assets(loaded, RunFolder(folder)) if is_run else loaded.at_work():
        for text in preview_attempts(
            loaded.recipe, folder, count, loaded.path, prompts_only=prompts_only
        ):
            echo(text)
