"""What the parts of a preview share: making calls that nobody keeps, and showing them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from toolbank.commands.show.transcript import format_attempt
from toolbank.system import aio
from toolbank.system.errors import Interrupted, ToolbankError

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import Journal
    from toolbank.llm.pool import Pool


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
