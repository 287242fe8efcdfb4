"""Make one attempt, from its candidate tools to a query or a rejection, and report how all went."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolbank.bank.catalogue import Version
from toolbank.bank.records import Provenance, Query, Tool
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Offer,
    Rejection,
    WriteTask,
    check_finish,
)
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Ask, FailuresInARow, Pool
from toolbank.requests.write.checks import read_draft, read_polished
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.sampling import Dealings
from toolbank.requests.write.writers import describe_writer, find_writer

Outcome = Literal["accepted", "declined", "rejected", "failed"]


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended: a query that passed every check, or why there is none.

    `requests` are the keys of its calls in the journal.
    """

    number: int
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    query: Query | None = None
    leak_words: int = 0
    requests: tuple[str, ...] = ()

    @property
    def has_asked_polish(self) -> bool:
        """Whether its draft passed, so that it ended with the polish."""
        return len(self.requests) > 1


# What an attempt makes at most: it writes and polishes.
_CALLS = 2


class AttemptMaker:
    """Makes attempts: all that they share is here, and nothing that one leaves to the next.

    `pool` makes and counts the calls, `folder` is that of the journal, and `last_failure` is the
    message of the newest failed one. `earlier` are the versions of the catalogue before `tools`.

    Raises:
        InputError: the bank is too small, or the engine lacks a model, key or file.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        domain: str,
        seed: int,
        journal: Journal,
        earlier: Sequence[Version] = (),
    ) -> None:
        self.config = config
        self.tools = tools
        self.folder = journal.path.parent
        context = EngineContext(tools, seed, self.folder, earlier)
        self.pool = Pool(find_writer(config), config, journal, context)
        self.engine = self.pool.engine
        self.last_failure = ""
        self._failures = FailuresInARow(self.pool)
        self._dealings = Dealings(
            tools, config, domain, seed, self.engine.offers, earlier
        )
        self._domain = domain
        self._seed = seed

    def offer(self, number: int) -> Offer | None:
        """The offer of an attempt, or None where the engine has no more."""
        return self._dealings.of(number).offer(number)

    def count_offers(self) -> int:
        """How many attempts the engine brings; for engines whose offers end."""
        return next(n for n in itertools.count() if self.offer(n) is None)

    def write_request(self, number: int) -> ChatRequest | None:
        """What the writer is asked in an attempt, or None past the last one."""
        return self._dealings.of(number).write_request(number)

    async def attempt(self, number: int) -> Attempt:
        """Write, check, polish, check.

        Raises:
            EngineError: no call of this run can succeed.
            Missing: a reply comes with a later round; then the attempt can be made again.
            Stopped: the run is ending, and a call was not made.
            ToolbankError: the journal can't be written.
        """
        keys: list[str] = []
        try:
            with self.pool.attempt(_CALLS) as ask:
                attempt = await self._attempt(number, ask, keys)
        except EngineError as error:
            self.last_failure = str(error)
            if error.fatal:
                raise
            self._failures.add(error)
            attempt = Attempt(number, "failed", error.reason, str(error))
        else:
            self._failures.end()
        return replace(attempt, requests=tuple(keys))

    def describe(self) -> dict[str, Any]:
        """What wrote the queries, for bank.json."""
        return describe_writer(self.engine, self._dealings.newest.prompts.hash)

    async def _attempt(self, number: int, ask: Ask, keys: list[str]) -> Attempt:
        """Put the key of each call into `keys`."""
        dealing = self._dealings.of(number)
        prompts, checker = dealing.prompts, dealing.checker
        write = dealing.write_request(number)
        if write is None or not isinstance(write.task, WriteTask):
            raise ValueError(f"there is no attempt {number}")
        offered, at_most = write.task.tools, write.task.at_most
        written = await self._ask(write, ask, keys)
        draft = check_finish(written) or read_draft(written.text)
        if isinstance(draft, Rejection):
            return _rejected(number, draft)
        if draft.declined:
            return Attempt(number, "declined", detail=draft.reason)
        tools = checker.check_draft(draft, offered, at_most)
        if isinstance(tools, Rejection):
            return _rejected(number, tools)
        polish = prompts.polish(number, draft, tools)
        final = await self._ask(polish, ask, keys)
        polished = check_finish(final) or read_polished(final.text, draft.draft)
        if isinstance(polished, str):
            polished = checker.check_text(polished) or polished
        if isinstance(polished, Rejection):
            return _rejected(number, polished)
        query = Query(
            id=f"{self._domain}-{number:06d}",
            query=polished,
            draft=draft.draft,
            tools=tuple(tool.name for tool in tools),
            explanation=draft.explanation,
            domain=self._domain,
            provenance=Provenance(
                attempt=number,
                engine=self.engine.name,
                model=final.model,
                prompt_hash=prompts.hash,
                seed=self._seed,
                requests=tuple(keys),
            ),
        )
        return Attempt(
            number,
            "accepted",
            query=query,
            leak_words=len(checker.texts.leak_words(query.query, tools)),
        )

    async def _ask(self, request: ChatRequest, ask: Ask, keys: list[str]) -> ChatReply:
        """Ask, and put the key of the call into `keys`, whether it fails or not."""
        try:
            asked = await ask(request)
        except EngineError:
            keys.append(request.key(self.engine.identity))
            raise
        keys.append(asked.key)
        return asked.reply


def _rejected(number: int, rejection: Rejection) -> Attempt:
    return Attempt(number, "rejected", rejection.reason, rejection.detail)
