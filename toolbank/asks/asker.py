"""Asking for the asks of one tool: a prompt, a reply, its checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from toolbank.asks.config import AsksConfig
from toolbank.asks.prompts import AskPrompts, group_asked
from toolbank.asks.replies import Answered, Lost, read_asks
from toolbank.asks.writers import find_ask_writer
from toolbank.bank.catalogue import Version
from toolbank.bank.records import Provenance, Tool
from toolbank.generate.text_checks import TextChecker
from toolbank.generate.writers import describe_writer
from toolbank.llm.chat import ChatRequest, EngineError, number_of
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import FailuresInARow, Pool


class Asker:
    """Asks for one group of siblings after the other; nothing that one leaves counts for the next.

    `groups` are those of the bank's tools that are not withheld, or those that the engine brings.
    `pool` makes and counts the calls, and `last_failure` is the message of the newest failed one.
    `earlier` are the versions of the catalogue before `tools`, as of `AskPrompts`.

    Raises:
        InputError: the engine lacks a model, key or file, or the prompt isn't there.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        seed: int,
        journal: Journal,
        withheld: Collection[str] = (),
        earlier: Sequence[Version] = (),
    ) -> None:
        self.config = config
        context = EngineContext(tools, seed, journal.path.parent)
        self.pool = Pool(find_ask_writer(config), config, journal, context)
        self.engine = self.pool.engine
        self.last_failure = ""
        self.groups = list(self._group(tools, withheld))
        self._prompts = AskPrompts(tools, config, domain, withheld, earlier)
        self._checker = TextChecker(tools)
        self._failures = FailuresInARow(self.pool)
        self._seed = seed

    def request(self, number: int) -> ChatRequest:
        """What is asked for a group."""
        return self._prompts.ask(self.groups[number])

    async def ask(self, number: int) -> Answered:
        """Ask, and check what comes.

        Raises:
            EngineError: no call of this run can succeed.
            Missing: the reply comes with a later round.
            Stopped: the run is ending, and the call was not made.
            ToolbankError: the journal can't be written.
        """
        request = self.request(number)
        try:
            with self.pool.attempt() as ask:
                asked = await ask(request)
        except EngineError as error:
            self.last_failure = str(error)
            if error.fatal:
                raise
            self._failures.add(error)
            lost = Lost("failed", error.reason, str(error))
            key = request.key(self.engine.identity)
            return Answered(number, key, asks=dict.fromkeys(self.config.keys, lost))
        self._failures.end()
        asks = read_asks(asked.reply, self.config, self._checker)
        return Answered(number, asked.key, asked.reply.model, asks)

    def trace(self, answered: Answered) -> Provenance:
        """Where the asks of a reply came from."""
        return Provenance(
            attempt=number_of(self.groups[answered.number][0].name),
            engine=self.engine.name,
            model=answered.model,
            prompt_hash=self._prompts.hash,
            seed=self._seed,
            requests=(answered.key,),
        )

    def describe(self) -> dict[str, Any]:
        """What wrote the asks, for asks.json."""
        return describe_writer(self.engine, self._prompts.hash)

    def _group(
        self, tools: Sequence[Tool], withheld: Collection[str]
    ) -> Iterator[tuple[Tool, ...]]:
        brought: Sequence[Sequence[str]] | None = getattr(self.engine, "groups", None)
        if brought is None:
            yield from group_asked(tools, withheld)
            return
        by_name = {tool.name: tool for tool in tools}
        for names in brought:
            if left := tuple(by_name[name] for name in names if name not in withheld):
                yield left
