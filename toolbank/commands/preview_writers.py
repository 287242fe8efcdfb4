"""Show what the writers are asked and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolbank.commands.transcript import format_attempt, format_prompt
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.llm.step import StepAnswer, StepRun
from toolbank.requests.asks.write import AskStep
from toolbank.requests.write.generate import WriteStep
from toolbank.run.catalogue import keep_domain
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe
from toolbank.run.stages.dataset import read_split
from toolbank.run.stages.sources import current_tools
from toolbank.system import aio
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, Interrupted, ToolbankError
from toolbank.system.folders import RUN, check_folder

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.step import Step


def preview_step(
    step: Step[Any, Any], pool: Pool, count: int, journal: Journal
) -> Iterator[str]:
    """Make a few attempts, and show all of each.

    Of an engine that answers in rounds, only the first prompt of each.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    requests = {number: step.request(number) for number in step.sample(count)}
    if pool.in_rounds:
        for number, request in requests.items():
            ending = _advise_endpoint(pool.engine.name, step.config)
            yield format_prompt(step.title(number), request, ending)
        return
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
        return Interrupted("stopped. Nothing is kept of a preview.")
    return ToolbankError(f"{pool.stop.message}.") if pool.stop else None


def _advise_endpoint(engine: str, config: EngineConfig) -> str:
    """What to do to see replies of an engine that answers in rounds."""
    section = config.section
    return (
        f"{engine} answers in rounds. To see replies, ask an endpoint: "
        f"--set {section}.engine=openai --set {section}.options={{}}"
    )


class PreviewStoppedError(ToolbankError):
    """A preview that was stopped by `error`; `shown` is what there was before."""

    def __init__(self, error: ToolbankError, shown: list[str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.shown = shown


def preview_attempts(
    recipe: Recipe, out: Path, count: int, path: Path | None = None
) -> list[str]:
    """Make the first `count` attempts of a recipe, and ask for `count` tools; show all of it.

    Of an engine that answers in rounds, such as `batch`, only the first prompt of each. Nothing
    is kept but the pages of a crawl, which are in the run folder's cache. `path` is the recipe's file,
    which advice names.

    Raises:
        InputError: the recipe asks for what can't be.
        PreviewStoppedError: the endpoint refuses, or it was interrupted.
    """
    if recipe.dataset is not None and recipe.asks is None:
        raise InputError(
            f"{recipe.name}: its queries come from a dataset; nothing is written that could "
            "be looked at before."
        )
    check_folder(out, RUN)
    recipe = keep_domain(recipe, RunFolder(out))
    steps = list(_list_steps(recipe))
    for config, _ in steps:
        kind = find_engine(config)
        kind.check(config)
        require_consent(kind.sends(config), config.section)
        kind.check_access(config)
    tools = (
        current_tools(recipe, RunFolder(out), path or Path(recipe.name)).tools
        if recipe.dataset is None
        else read_split(recipe).tools
    )
    shown: list[str] = []
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        try:
            # What came before an error stays in the list.
            for config, make in steps:
                context = EngineContext(tools, recipe.seed, journal.path.parent)
                pool = Pool(find_engine(config), config, journal, context)
                domain, seed = recipe.domain_name, recipe.seed
                step = make(tools, config, domain, seed, engine=pool.engine)
                shown.extend(preview_step(step, pool, count, journal))
        except InputError:
            raise
        except ToolbankError as error:
            raise PreviewStoppedError(error, shown) from error
    return shown


def _list_steps(
    recipe: Recipe,
) -> Iterator[tuple[EngineConfig, Callable[..., Step[Any, Any]]]]:
    if recipe.dataset is None:
        yield recipe.generate, WriteStep
    if recipe.asks is not None:
        yield recipe.asks, AskStep
