"""Show what the writers are asked and what they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolbank.commands.transcript import (
    format_answered,
    format_attempt,
    format_ending,
    format_prompt,
)
from toolbank.llm.journal import Journal
from toolbank.requests.asks.write import Asker
from toolbank.requests.asks.writers import find_ask_writer
from toolbank.requests.write.attempts import Attempt, AttemptMaker
from toolbank.requests.write.writers import find_writer
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
    from toolbank.bank.records import Tool
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.pool import Pool
    from toolbank.requests.asks.config import AsksConfig
    from toolbank.requests.asks.prompts import Answered


def carry(
    pool: Pool, make: Callable[[int], Awaitable[None]], numbers: Sequence[int]
) -> ToolbankError | None:
    """Make the attempts of these numbers; gives what stopped them, if anything."""

    async def attempt(number: int) -> None:
        await make(number)

    async def work() -> None:
        attempts = (attempt(number) for number in numbers)
        async with pool.working():
            await pool.carry(lambda: next(attempts, None))

    try:
        aio.run(work())
    except ToolbankError as error:
        return error
    if pool.stop.cause == "interrupt":
        return Interrupted("stopped. Nothing is kept of a preview.")
    return ToolbankError(f"{pool.stop.message}.") if pool.stop else None


def format_exchanges(
    title: str, attempt: int, journal: Journal, ending: str
) -> Iterator[str]:
    """All of an attempt, which was stopped where it has no ending; one not begun is left out."""
    entries, failures = list(journal.entries(attempt)), list(journal.failures(attempt))
    if ending or entries or failures:
        told = (ending or "stopped before its end").splitlines()
        yield format_attempt(title, entries, failures, told)


def advise_endpoint(engine: str, config: EngineConfig) -> str:
    """What to do to see replies of an engine that answers in rounds."""
    section = config.section
    return (
        f"{engine} answers in rounds. To see replies, ask an endpoint: "
        f"--set {section}.engine=openai --set {section}.options={{}}"
    )


def preview_asks(
    recipe: Recipe,
    config: AsksConfig,
    tools: Sequence[Tool],
    count: int,
    journal: Journal,
) -> Iterator[str]:
    """Ask for `count` tools, evenly spread over the bank, and show all of it.

    Of an engine that answers in rounds, only the prompts.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    asker = Asker(tools, config, recipe.domain_name, recipe.seed, journal)
    total = len(asker.groups)
    numbers = sorted({place * total // count for place in range(count)})
    titles = {n: f"asks for {asker.groups[n][0].name}" for n in numbers}
    if find_ask_writer(config).in_rounds:
        advice = advise_endpoint(asker.engine.name, config)
        for number, title in titles.items():
            yield format_prompt(title, asker.request(number), advice)
        return
    answered: dict[int, Answered] = {}

    async def ask(number: int) -> None:
        answered[number] = await asker.ask(number)

    stopped = carry(asker.pool, ask, numbers)
    for number, title in titles.items():
        ending = format_answered(answered[number]) if number in answered else ""
        attempt = asker.request(number).attempt
        yield from format_exchanges(title, attempt, journal, ending)
    if stopped is not None:
        raise stopped


def preview_generation(
    recipe: Recipe, tools: Sequence[Tool], count: int, journal: Journal
) -> Iterator[str]:
    """Make the first `count` attempts and show all of each.

    Of an engine that answers in rounds, only the first prompt of each.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    config = recipe.generate
    maker = AttemptMaker(tools, config, recipe.domain_name, recipe.seed, journal)
    numbers = [number for number in range(count) if maker.offer(number) is not None]
    if find_writer(config).in_rounds:
        for number in numbers:
            if request := maker.write_request(number):
                advice = advise_endpoint(maker.engine.name, config)
                yield format_prompt(f"attempt {number}", request, advice)
        return
    attempts: dict[int, Attempt] = {}

    async def make(number: int) -> None:
        attempts[number] = await maker.attempt(number)

    stopped = carry(maker.pool, make, numbers)
    for number in numbers:
        ending = _end(attempts.get(number))
        yield from format_exchanges(f"attempt {number}", number, journal, ending)
    if stopped is not None:
        raise stopped


def _end(attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    if attempt.query is not None:
        return f"accepted: {attempt.query.query}"
    return format_ending(attempt.outcome, attempt.reason, attempt.detail)


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
    if recipe.dataset is None:
        _check(find_writer(recipe.generate), recipe.generate)
    if recipe.asks is not None:
        _check(find_ask_writer(recipe.asks), recipe.asks)
    tools = (
        current_tools(recipe, RunFolder(out), path or Path(recipe.name)).tools
        if recipe.dataset is None
        else read_split(recipe).tools
    )
    shown: list[str] = []
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        try:
            # What came before an error stays in the list.
            shown.extend(_preview(recipe, tools, count, journal))
        except InputError:
            raise
        except ToolbankError as error:
            raise PreviewStoppedError(error, shown) from error
    return shown


def _check(kind: EngineKind[Any], config: EngineConfig) -> None:
    kind.check(config)
    require_consent(kind.sends(config), config.section)
    kind.check_access(config)


def _preview(
    recipe: Recipe, tools: Sequence[Tool], count: int, journal: Journal
) -> Iterator[str]:
    if recipe.dataset is None:
        yield from preview_generation(recipe, tools, count, journal)
    if recipe.asks is not None:
        yield from preview_asks(recipe, recipe.asks, tools, count, journal)
