"""A look at what the writer is asked and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from toolbank.commands.show.transcript import (
    format_attempt,
    format_ending,
    format_prompt,
)
from toolbank.generate.attempt import Attempt
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.writers import find_writer
from toolbank.journal import Journal
from toolbank.llm.trust import demand
from toolbank.recipe import Recipe
from toolbank.run.domain import keep_domain
from toolbank.run.folder import RunFolder
from toolbank.run.stages.sources import current_tools
from toolbank.system import aio
from toolbank.system.errors import InputError, Interrupted, ToolbankError
from toolbank.system.outputs import check_run_folder


class PreviewStoppedError(ToolbankError):
    """A preview that was stopped by `error`; `shown` is what there was before."""

    def __init__(self, error: ToolbankError, shown: list[str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.shown = shown


def preview_attempts(recipe: Recipe, out: Path, count: int) -> list[str]:
    """Make the first `count` attempts of a recipe and show all of each.

    Of an engine that answers in rounds, such as `batch`, only the first prompt of each. Nothing
    is kept but the pages of a crawl, which are in the run folder's cache.

    Raises:
        InputError: the recipe asks for what can't be.
        PreviewStoppedError: the endpoint refuses, or it was interrupted.
    """
    if recipe.dataset is not None:
        raise InputError(
            f"{recipe.name}: its queries come from a dataset; nothing is written that could "
            "be looked at before."
        )
    check_run_folder(out)
    recipe = keep_domain(recipe, RunFolder(out))
    kind = find_writer(recipe.generate)
    kind.check(recipe.generate)
    demand(kind.sends(recipe.generate), "generate")
    kind.check_access(recipe.generate)
    tools = current_tools(recipe, RunFolder(out)).tools
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        maker = AttemptMaker(
            tools, recipe.generate, recipe.domain_name, recipe.seed, journal
        )
        if kind.in_rounds:
            return list(_format_prompts(maker, count))
        attempts: dict[int, Attempt] = {}
        stopped = None
        try:
            aio.run(_attempt(maker, count, attempts))
        except ToolbankError as error:
            stopped = error
        entries, failures = list(journal.entries()), list(journal.failures())
    begun = {one.attempt for one in entries} | {one.attempt for one in failures}
    shown = [
        format_attempt(
            number,
            [entry for entry in entries if entry.attempt == number],
            [failure for failure in failures if failure.attempt == number],
            _end(attempts.get(number)),
        )
        for number in sorted(begun | attempts.keys())
    ]
    if stopped is not None:
        raise PreviewStoppedError(stopped, shown) from stopped
    return shown


def _format_prompts(maker: AttemptMaker, count: int) -> Iterator[str]:
    for number in range(count):
        request = maker.write_request(number)
        if request is not None:
            ending = (
                f"{maker.engine.name} answers in rounds. To see replies, ask an endpoint: "
                "--set generate.engine=openai --set generate.options={}"
            )
            yield format_prompt(request, ending)


async def _attempt(
    maker: AttemptMaker, count: int, attempts: dict[int, Attempt]
) -> None:
    """Make attempts, and put those that end into `attempts`."""

    async def make(number: int) -> None:
        attempts[number] = await maker.attempt(number)

    waiting = (make(n) for n in range(count) if maker.offer(n) is not None)
    async with maker.pool.working():
        await maker.pool.carry(lambda: next(waiting, None))
    stop = maker.pool.stop
    if stop.cause == "interrupt":
        raise Interrupted("stopped. Nothing is kept of a preview.")
    if stop:
        raise ToolbankError(f"{stop.message}.")


def _end(attempt: Attempt | None) -> Iterator[str]:
    if attempt is None:
        yield "stopped before its end"
    elif attempt.query is not None:
        yield f"accepted: {attempt.query.query}"
    else:
        yield format_ending(attempt.outcome, attempt.reason, attempt.detail)
