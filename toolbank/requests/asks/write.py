"""Write asks for every tool: many calls at once, folded in a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.catalogue import CatalogueVersion
from toolbank.bank.records import Ask, Provenance, Tool
from toolbank.llm.accounts import join_reasons, rank_reasons
from toolbank.llm.chat import ChatReply, ChatRequest, Engine, Rejection, number_of
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.llm.step import (
    UNUSABLE_AT_FIRST,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    ask_all,
    describe_ending,
)
from toolbank.requests.asks import AsksConfig
from toolbank.requests.asks.prompts import AskPrompts, Lost, group_asked, read_asks
from toolbank.requests.write.bank_builder import describe_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.near_duplicates import NearDuplicates
from toolbank.requests.write.prompts import TYPICAL
from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count

Outcomes = Mapping[str, str | Lost]
"""What became of each ask of a reply, by its key: a text, or why there is none."""

_SHOWN = 160


def describe_loss(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 150)"."""
    return describe_ending(outcome, reason or "the writer left it empty", detail)


@dataclass(frozen=True)
class AskSet:
    """The asks in the order of tools, and the content of asks.json."""

    asks: Sequence[Ask]
    content: dict[str, Any]


@dataclass
class Folded:
    """The asks, tool by tool; what was lost; and how much of each kind there is.

    `ended` counts groups, `tools` those tools that have an ask; `by_kind` counts texts, by kind
    and how they ended. A text that siblings share counts once.
    """

    config: AsksConfig
    asks: list[Ask] = field(default_factory=list)
    not_accepted: list[dict[str, str]] = field(default_factory=list)
    reasons: dict[str, Counter[str]] = field(
        default_factory=lambda: {
            outcome: Counter() for outcome in ("declined", "rejected", "failed")
        }
    )
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    ended: int = 0
    tools: int = 0
    accepted: int = 0

    def keep(
        self,
        group: Sequence[Tool],
        kept: Sequence[tuple[str, str]],
        provenance: Provenance | None,
    ) -> None:
        """Give each tool of a group the asks that passed, as kind and text."""
        self.ended += 1
        self.tools += len(group) if kept else 0
        self.accepted += len(kept)
        for kind, _ in kept:
            self.by_kind.setdefault(kind, Counter())["accepted"] += 1
        for tool in group:
            self.asks += [
                Ask(tool=tool.name, kind=kind, ask=text, provenance=provenance)
                for kind, text in kept
            ]

    def lose(self, tool: Tool, kind: str, lost: Lost, key: str) -> None:
        """Note an ask that didn't get in, and why."""
        self.reasons[lost.outcome][lost.reason or lost.outcome] += 1
        self.by_kind.setdefault(kind, Counter())[lost.outcome] += 1
        self.not_accepted.append(
            {
                "tool": tool.name,
                "kind": kind,
                "outcome": lost.outcome,
                "reason": lost.reason,
                "detail": lost.detail,
                "request": key,
            }
        )

    def counts(self) -> dict[str, Any]:
        """Accepted + declined + rejected + failed = `per_tool` for each group that ended."""
        return {
            "groups": self.ended,
            "tools": self.tools,
            "accepted": self.accepted,
            "declined": self.reasons["declined"].total(),
            "rejected": dict(sorted(self.reasons["rejected"].items())),
            "failed": dict(sorted(self.reasons["failed"].items())),
            "by_kind": {
                kind: dict(sorted(self.by_kind[kind].items()))
                for kind in dict.fromkeys(self.config.kinds)
                if kind in self.by_kind
            },
        }

    def summarise(self) -> str:
        """Such as "2,143 asks for 536 tools"."""
        alike = self.tools > self.ended
        shared = f" ({self.ended:,} asked for; siblings share theirs)" if alike else ""
        return f"{count(self.accepted, 'ask')} for {count(self.tools, 'tool')}{shared}"

    def list_reasons(self) -> Iterator[str]:
        """A line for each reason, with an example where it has particulars."""
        for outcome in ("rejected", "declined", "failed"):
            for reason, number in rank_reasons(self.reasons[outcome]):
                details = (
                    " ".join(row["detail"].split())
                    for row in self.not_accepted
                    if (row["reason"] or row["outcome"]) == reason and row["detail"]
                )
                example = next(details, "")
                such = f", such as: {example[:_SHOWN]}" if example else ""
                yield f"{reason} {number:,}{such}"


class AskStep(Step[Outcomes, AskSet]):
    """Asks for one group of siblings after the other; nothing that one leaves counts for the next.

    `groups` are those of the bank's tools that are not withheld, or those that the engine brings.
    `earlier` are the versions of the catalogue before `tools`, as of `AskPrompts`. Near-duplicates
    are judged at the fold, against all that was accepted before.

    Raises:
        InputError: the prompt isn't there.
    """

    config: AsksConfig
    what = "tools"
    done = "asked for"

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        seed: int,
        withheld: Collection[str] = (),
        earlier: Sequence[CatalogueVersion] = (),
        engine: Engine | None = None,
    ) -> None:
        self.groups = list(_group(tools, withheld, engine))
        super().__init__(config, len(self.groups))
        self._n_tools = len(tools) - len(withheld)
        self._prompts = AskPrompts(tools, config, domain, withheld, earlier)
        self._checker = TextChecker(tools)
        self._seed = seed
        self._passed = 0
        self._lost_texts = 0

    def request(self, number: int) -> ChatRequest:
        """What is asked for a group."""
        return self._prompts.ask(self.groups[number])

    def read(self, number: int, reply: ChatReply) -> Outcomes:  # noqa: ARG002
        """The asks under their keys, and why others are not there."""
        return read_asks(reply, self.config, self._checker)

    def outcomes(self, answer: StepAnswer[Outcomes]) -> Outcomes:
        """What became of each ask of an answer, whether there was a reply or not."""
        value = answer.value
        if not isinstance(value, Rejection):
            return value
        lost = Lost("failed", value.reason, value.detail)
        return dict.fromkeys(self.config.keys, lost)

    def sample_answer(self) -> Mapping[str, Any]:
        """Texts of a draft's length."""
        return dict.fromkeys(self.config.keys, TYPICAL.draft)

    def title(self, number: int) -> str:
        """Such as "asks for shop.find_orders"."""
        return f"asks for {self.groups[number][0].name}"

    def describe(self, answer: StepAnswer[Outcomes]) -> str:
        """What became of each ask, a line each."""
        return "\n".join(
            f"{key}: accepted: {one}"
            if isinstance(one, str)
            else f"{key}: {describe_loss(one.outcome, one.reason, one.detail)}"
            for key, one in self.outcomes(answer).items()
        )

    def choose(self, run: StepRun) -> int | None:
        """The next group; past the first few only once anything can be used."""
        if run.begun >= UNUSABLE_AT_FIRST and not (self._passed or run.missing):
            return None
        return super().choose(run)

    def accept(
        self,
        number: int,
        answer: StepAnswer[Outcomes],
        run: StepRun,
    ) -> None:
        """Take what came for a group."""
        super().accept(number, answer, run)
        outcomes = self.outcomes(answer).values()
        lost = sum(isinstance(one, Lost) for one in outcomes)
        self._lost_texts += lost
        self._passed += len(outcomes) - lost

    def progress(self) -> tuple[int, int]:
        """Of how many groups the reply has come, and how many asks are lost."""
        return len(self.answers), self._lost_texts

    def fold(self, run: StepRun) -> StepResult[AskSet]:
        """The asks in the order of tools.

        Raises:
            ToolbankError: there is none.
        """
        folded = self._fold(run.pool.engine)
        if not (folded.accepted or run.waiting):
            raise ToolbankError(self._explain_nothing(folded, run))
        failed = folded.reasons["failed"]
        gone = self.total - folded.ended + failed.total() // len(self.config.keys)
        engine = run.pool.engine
        writer = describe_writer(engine, self._prompts.hash)
        return StepResult(
            AskSet(
                folded.asks,
                {
                    **writer,
                    "counts": folded.counts(),
                    "not_accepted": folded.not_accepted,
                },
            ),
            folded.summarise(),
            lacks=f"asks for {gone:,} of {self.total:,} tools" if gone else "",
            problems=tuple(self._list_problems(folded, engine)),
            failed=join_reasons(failed),
        )

    def _fold(self, engine: Engine) -> Folded:
        folded = Folded(self.config)
        texts: list[str] = []
        seen = NearDuplicates(self.config.near_duplicate, texts.__getitem__)
        writers: list[str] = []
        for number, answer in sorted(self.answers.items()):
            group, kept = self.groups[number], list[tuple[str, str]]()
            for key, one in self.outcomes(answer).items():
                kind = self.config.keys[key]
                if isinstance(one, str) and (like := seen.find_like(one)) is not None:
                    detail = f"like one of {writers[like]}: {texts[like]}"
                    lost = Lost("rejected", "near-duplicate", detail)
                    folded.lose(group[0], kind, lost, answer.keys[0])
                elif isinstance(one, str):
                    texts.append(one)
                    writers.append(group[0].name)
                    seen.add(one)
                    kept.append((kind, one))
                else:
                    folded.lose(group[0], kind, one, answer.keys[0])
            folded.keep(
                group, kept, self._trace(group, answer, engine) if kept else None
            )
        return folded

    def _trace(
        self, group: Sequence[Tool], answer: StepAnswer[Outcomes], engine: Engine
    ) -> Provenance:
        """Where the asks of a reply came from."""
        return Provenance(
            attempt=number_of(group[0].name),
            engine=engine.name,
            model=answer.model,
            prompt_hash=self._prompts.hash,
            seed=self._seed,
            requests=answer.keys,
        )

    def _list_problems(self, folded: Folded, engine: Engine) -> Iterator[str]:
        """What the user should know of asks that were made."""
        if said := join_reasons(folded.reasons["rejected"]):
            yield f"not accepted: {said}"
        declined = {kind: n["declined"] for kind, n in folded.by_kind.items()}
        if said := ", ".join(f"{kind} {n:,}" for kind, n in declined.items() if n):
            yield f"not written by {engine.name}: {said}"
        if without := self._n_tools - folded.tools:
            yield f"without an ask: {count(without, 'tool')} of {self._n_tools:,}"
        missing: dict[str, int] = getattr(engine, "missing", {})
        if missing:
            yield (
                f"not in the bank: {count(len(missing), 'tool that has', 'tools that have')} "
                f"recorded asks, such as {min(missing)}; all are in asks.json"
            )
        unused: dict[str, int] = getattr(engine, "unused", {})
        if unused:
            asks = count(sum(unused.values()), "recorded ask")
            yield (
                f"not used: {asks} of {count(len(unused), 'tool')}, such as {next(iter(unused))}; "
                "of a tool those of its first line count, as many and of those kinds that "
                "asks.per_tool and asks.kinds say"
            )

    def _explain_nothing(self, folded: Folded, run: StepRun) -> str:
        """Why there is not one ask."""
        look = (
            f"Look at what {run.pool.engine.name} is asked and answers: toolbank show RUN with the name "
            "of a tool, toolbank preview RECIPE for what would be asked."
        )
        tried = count(folded.ended, "reply", "replies")
        return run.explain_nothing("an ask", tried, folded.list_reasons(), [look])


def _group(
    tools: Sequence[Tool], withheld: Collection[str], engine: Engine | None
) -> Iterator[tuple[Tool, ...]]:
    brought: Sequence[Sequence[str]] | None = getattr(engine, "groups", None)
    if brought is None:
        yield from group_asked(tools, withheld)
        return
    by_name = {tool.name: tool for tool in tools}
    for names in brought:
        if left := tuple(by_name[name] for name in names if name not in withheld):
            yield left


def ask_for_tools(
    tools: Sequence[Tool],
    config: AsksConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    withheld: Collection[str] = (),
    earlier: Sequence[CatalogueVersion] = (),
) -> StepResult[AskSet]:
    """Have asks written for every tool that is not withheld, one call for each group of siblings.

    A tool that is as it was in `earlier` versions of the catalogue keeps its prompt.
    The result is a function of the arguments and the journal alone, whatever the concurrency.
    Keys of the content: what wrote them (`engine`, `model`, `prompt_hash`, `missing_tools`),
    `counts`, and `not_accepted`, a row with the reason for each ask that is not there.

    Raises:
        InputError: the engine, its file or the prompt can't be used.
        ToolbankError: nothing that it writes can be used, the endpoint is down or refuses, or the
            run was interrupted. What was in flight has finished, and every reply is in the journal.
    """
    context = EngineContext(tools, seed, journal.path.parent)
    pool = Pool(find_engine(config), config, journal, context)
    step = AskStep(tools, config, domain, seed, withheld, earlier, pool.engine)
    return aio.run(ask_all(step, pool), uvloop=True)
