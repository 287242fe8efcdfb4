"""Write asks for every tool: many calls at once, folded in a fixed order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from toolbank.bank.records import Ask, Provenance, Tool
from toolbank.bank.split import CatalogueVersion
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Rejection,
    number_from_text,
)
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.step import (
    UNUSABLE_AT_FIRST,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    describe_ending,
    run_step,
)
from toolbank.requests.asks import AsksConfig
from toolbank.requests.asks.prompts import AskLoss, AskPrompts, group_asked, read_asks
from toolbank.requests.write.bank_builder import Losses, describe_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.near_duplicates import NearDuplicates
from toolbank.requests.write.prompts import TYPICAL
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count

Outcomes = Mapping[str, str | AskLoss]
"""What became of each ask of a reply, by its key: a text, or why there is none."""


def describe_ask_ending(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 150)"."""
    return describe_ending(outcome, reason or "the writer left it empty", detail)


@dataclass(frozen=True)
class AskSet:
    """The asks in the order of tools, and the content of asks.json."""

    asks: Sequence[Ask]
    content: dict[str, Any]


@dataclass
class AskBuilder:
    """Collects the asks, tool by tool, and counts how the texts of each kind ended.

    `groups` counts those whose reply came, and `tools` those with an ask. A text that siblings
    share counts once.
    """

    asks: list[Ask] = field(default_factory=list)
    not_accepted: list[dict[str, str]] = field(default_factory=list)
    losses: Losses = field(default_factory=Losses)
    by_kind: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    groups: int = 0
    tools: int = 0
    accepted: int = 0

    def keep(
        self,
        group: Sequence[Tool],
        kept: Sequence[tuple[str, str]],
        provenance: Provenance,
    ) -> None:
        """Give each tool of a group the accepted asks, pairs of kind and text."""
        self.groups += 1
        self.tools += len(group) if kept else 0
        self.accepted += len(kept)
        for kind, _ in kept:
            self.by_kind[kind]["accepted"] += 1
        self.asks += [
            Ask(tool=tool.name, kind=kind, ask=text, provenance=provenance)
            for tool in group
            for kind, text in kept
        ]

    def lose(self, tool: Tool, kind: str, lost: AskLoss, key: str) -> None:
        """Count an ask that was not accepted, and why."""
        self.losses.add(lost.outcome, lost.reason, lost.detail)
        self.by_kind[kind][lost.outcome] += 1
        row = {"tool": tool.name, "kind": kind, **asdict(lost), "request": key}
        self.not_accepted.append(row)

    def counts(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Accepted + declined + rejected + failed = `per_tool` for each group."""
        return {
            "groups": self.groups,
            "tools": self.tools,
            "accepted": self.accepted,
            **self.losses.counts(),
            "by_kind": {
                kind: dict(sorted(self.by_kind[kind].items()))
                for kind in dict.fromkeys(kinds)
                if kind in self.by_kind
            },
        }

    def summarise(self) -> str:
        """Such as "2,143 asks for 536 tools"."""
        shared = (
            f" ({self.groups:,} requested; siblings share theirs)"
            if self.tools > self.groups
            else ""
        )
        return f"{count(self.accepted, 'ask')} for {count(self.tools, 'tool')}{shared}"


class AskStep(Step[Outcomes, AskSet]):
    """Request the asks of each sibling group in one call, independent of the others.

    `groups` are those of the bank's tools that are not withheld, or those that the engine provides.
    `earlier` are the versions of the catalogue before `tools`, as of `AskPrompts`. `fold` rejects
    near-duplicates of asks that were accepted before.

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
        """Make the request of a group."""
        return self._prompts.ask(self.groups[number])

    def read(self, number: int, reply: ChatReply) -> Outcomes:  # noqa: ARG002
        """Read the asks under their keys, and why others are missing."""
        return read_asks(reply, self.config, self._checker)

    def outcomes(self, answer: StepAnswer[Outcomes]) -> Outcomes:
        """Return what became of each ask, whether there was a reply or not."""
        value = answer.value
        if not isinstance(value, Rejection):
            return value
        lost = AskLoss("failed", value.reason, value.detail)
        return dict.fromkeys(self.config.keys, lost)

    def sample_answer(self) -> Mapping[str, Any]:
        """Make texts as long as a draft."""
        return dict.fromkeys(self.config.keys, TYPICAL.draft)

    def title(self, number: int) -> str:
        """Such as "asks for shop.find_orders"."""
        return f"asks for {self.groups[number][0].name}"

    def describe(self, answer: StepAnswer[Outcomes]) -> str:
        """Describe what became of each ask, a line each."""
        return "\n".join(
            f"{key}: accepted: {one}"
            if isinstance(one, str)
            else f"{key}: {describe_ask_ending(one.outcome, one.reason, one.detail)}"
            for key, one in self.outcomes(answer).items()
        )

    def choose(self, run: StepRun) -> int | None:
        """Choose the next group; stop after the first few if no ask passed."""
        if run.begun >= UNUSABLE_AT_FIRST and not (self._passed or run.missing):
            return None
        return super().choose(run)

    def accept(
        self,
        number: int,
        answer: StepAnswer[Outcomes],
        run: StepRun,
    ) -> None:
        """Take the answer of a group."""
        super().accept(number, answer, run)
        outcomes = self.outcomes(answer).values()
        lost = sum(isinstance(one, AskLoss) for one in outcomes)
        self._lost_texts += lost
        self._passed += len(outcomes) - lost

    def progress(self) -> tuple[int, int]:
        """Count the groups whose reply came, and the asks that are lost."""
        return len(self.answers), self._lost_texts

    def fold(self, run: StepRun) -> StepResult[AskSet]:
        """Collect the asks in the order of tools.

        Raises:
            ToolbankError: there is none.
        """
        built, engine = self._build(run.pool.engine), run.pool.engine
        if not (built.accepted or run.waiting):
            look = (
                f"Look at what {engine.name} is asked and answers: toolbank show RUN with the name "
                "of a tool, toolbank preview RECIPE for what would be asked."
            )
            tried = count(built.groups, "reply", "replies")
            reasons = built.losses.list_reasons()
            raise ToolbankError(run.explain_nothing("an ask", tried, reasons, [look]))
        failed = built.losses.of["failed"]
        gone = self.total - built.groups + failed.total() // len(self.config.keys)
        content = {
            **describe_writer(engine, self._prompts.hash),
            "counts": built.counts(self.config.kinds),
            "not_accepted": built.not_accepted,
        }
        return StepResult(
            AskSet(built.asks, content),
            built.summarise(),
            lacks=f"asks for {gone:,} of {self.total:,} tools" if gone else "",
            problems=tuple(self._list_problems(built, engine)),
            failed=join_reasons(failed),
        )

    def _build(self, engine: Engine) -> AskBuilder:
        built = AskBuilder()
        texts: list[str] = []
        seen = NearDuplicates(self.config.near_duplicate, texts.__getitem__)
        writers: list[str] = []
        for number, answer in sorted(self.answers.items()):
            group, kept = self.groups[number], list[tuple[str, str]]()
            for key, one in self.outcomes(answer).items():
                kind = self.config.keys[key]
                if isinstance(one, str) and (like := seen.find_like(one)) is not None:
                    detail = f"like one of {writers[like]}: {texts[like]}"
                    one = AskLoss("rejected", "near-duplicate", detail)
                if isinstance(one, AskLoss):
                    built.lose(group[0], kind, one, answer.keys[0])
                else:
                    texts.append(one)
                    writers.append(group[0].name)
                    seen.add(one)
                    kept.append((kind, one))
            built.keep(group, kept, self._trace(group, answer, engine))
        return built

    def _trace(
        self, group: Sequence[Tool], answer: StepAnswer[Outcomes], engine: Engine
    ) -> Provenance:
        """Where the asks of a reply came from."""
        return Provenance(
            attempt=number_from_text(group[0].name),
            engine=engine.name,
            model=answer.model,
            prompt_hash=self._prompts.hash,
            seed=self._seed,
            requests=answer.keys,
        )

    def _list_problems(self, built: AskBuilder, engine: Engine) -> Iterator[str]:
        """What the user should know of asks that were made."""
        if said := built.losses.describe("rejected"):
            yield f"not accepted: {said}"
        declined = {kind: n["declined"] for kind, n in built.by_kind.items()}
        if said := ", ".join(f"{kind} {n:,}" for kind, n in declined.items() if n):
            yield f"not written by {engine.name}: {said}"
        if without := self._n_tools - built.tools:
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
                f"not used: {asks} of {count(len(unused), 'tool')}, such as {next(iter(unused))}. "
                "Only the first line of a tool counts, up to asks.per_tool and of asks.kinds"
            )


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
    """Generate asks for every tool that is not withheld, one call for each sibling group.

    A tool that did not change since an `earlier` version of the catalogue keeps its prompt. The
    result depends on the arguments and the journal alone, whatever the concurrency. Keys of the
    content: the writer (`engine`, `model`, `prompt_hash`, `missing_tools`), `counts`, and
    `not_accepted`, a row with the reason for each missing ask.

    Raises:
        InputError: the engine, its file or the prompt can't be used.
        ToolbankError: nothing that it writes can be used, the endpoint is down or refuses, or the
            run was interrupted. What was in flight has finished, and every reply is in the journal.
    """
    context = EngineContext(tools, seed, journal.path.parent)
    make_step = partial(AskStep, tools, config, domain, seed, withheld, earlier)
    return run_step(config, journal, context, make_step)
