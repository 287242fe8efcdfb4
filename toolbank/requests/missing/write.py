"""Write queries that no tool of a bank fits: one call per group of tools, folded in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from toolbank.bank.records import Provenance, Query, Tool
from toolbank.config.assets import find_asset
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Rejection,
    check_finish,
    find_answer,
    find_objects,
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
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.missing import FEWEST_WORDS, MissingConfig
from toolbank.requests.missing.groups import (
    SimilarTools,
    ToolGroup,
    draw_groups,
    group_tools,
)
from toolbank.requests.write.bank_builder import Losses, LossKind, describe_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.language import ask_in_language
from toolbank.requests.write.near_duplicates import ALIKE, NearDuplicates
from toolbank.requests.write.prompts import SAMPLE_REASON, TYPICAL, brief
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line
from toolbank.system.text import replace_surrogates

TEMPLATE = "missing.j2"

_EXCERPT = 100
_LONGEST_LACK = 300


@dataclass(frozen=True)
class MissingRequest:
    """A request that no tool should fit, and what a tool for it would do."""

    text: str
    lacks: str = ""


@dataclass(frozen=True)
class MissingLoss:
    """Why a request of a reply is not in the bank."""

    outcome: LossKind
    reason: str = ""
    detail: str = ""


Outcomes = Sequence[MissingRequest | MissingLoss]
"""What became of each request of a reply, in its order; the last ones may be declined."""


@dataclass(frozen=True)
class MissingQueries:
    """The accepted queries in the order of groups, without splits, and the content of missing.json."""

    queries: Sequence[Query]
    content: dict[str, Any]


class MissingStep(Step[Outcomes, MissingQueries]):
    """Request queries that no tool fits, for each group of tools in one call.

    Whether none fits is not known before `verify`: the writer sees the group and the most similar
    tools of others. `fold` rejects near-duplicates of queries that were accepted before.

    Raises:
        InputError: the prompt isn't there.
    """

    config: MissingConfig
    what = "groups of tools"
    done = "asked for"

    def __init__(
        self,
        tools: Sequence[Tool],
        config: MissingConfig,
        domain: str,
        seed: int,
        engine: Engine | None = None,  # noqa: ARG002 - as of other steps
    ) -> None:
        self.groups = draw_groups(group_tools(tools), config.groups, seed)
        super().__init__(config, len(self.groups))
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._domain, self._seed = domain, seed
        self._template = PromptTemplate(TEMPLATE)
        self._similar = SimilarTools(tools)
        self._checker = TextChecker(tools, self._find_examples(), config.language)
        self._passed = self._lost_texts = 0

    def _find_examples(self) -> list[str]:
        """Find the requests that the template gives as examples."""
        objects = find_objects(self.request(0).prompt) if self.groups else ()
        return [
            str(one["request"])
            for found in objects
            for one in found.get("requests", ())
            if " " in str(one.get("request"))
        ]

    def request(self, number: int) -> ChatRequest:
        """Make the request for a group."""
        group = self.groups[number]
        request = self._template.request(
            number_from_text(f"missing {group.name}"),
            "missing",
            None,
            domain=self._domain,
            group=group.name,
            tools=[brief(tool) for tool in group.tools],
            others=[
                {"name": tool.name, "summary": brief(tool)["summary"]}
                for tool in self._similar.find(group)
            ],
            number=self.config.per_group,
            instructions=self.config.instructions.strip(),
        )
        return ask_in_language(request, self.config.language)

    def read(self, number: int, reply: ChatReply) -> Outcomes | Rejection:  # noqa: ARG002
        """Read the requests of a reply, and why others are not accepted."""
        answer = check_finish(reply) or find_answer(reply.text, ["requests"])
        if isinstance(answer, Rejection):
            return answer
        rows = answer["requests"]
        if not isinstance(rows, list):
            return Rejection("wrong-schema", one_line(str(rows), _EXCERPT))
        most = self.config.per_group
        found = [self._read(row) for row in rows[:most]]
        found += [MissingLoss("rejected", "too-many") for _ in rows[most:]]
        return found + [MissingLoss("declined") for _ in range(most - len(rows))]

    def _read(self, row: object) -> MissingRequest | MissingLoss:
        said = row.get("request") if isinstance(row, Mapping) else None
        if not isinstance(row, Mapping) or not isinstance(said, str):
            return MissingLoss("rejected", "wrong-schema", one_line(str(row), _EXCERPT))
        text = " ".join(said.split())
        if not text:
            return MissingLoss("declined")
        problem = self._checker.check(text, FEWEST_WORDS, self.config.max_words)
        if problem is None:
            lacks = one_line(str(row.get("lacks") or ""), _LONGEST_LACK)
            return MissingRequest(text, replace_surrogates(lacks))
        detail = replace_surrogates(problem.detail or one_line(text, _EXCERPT))
        return MissingLoss("rejected", problem.reason, detail)

    def outcomes(self, answer: StepAnswer[Outcomes]) -> Outcomes:
        """Return what became of each request, whether there was a usable reply or not."""
        value = answer.value
        if not isinstance(value, Rejection):
            return value
        outcome: LossKind = "failed" if answer.failed else "rejected"
        return [
            MissingLoss(outcome, value.reason, value.detail)
        ] * self.config.per_group

    def sample_answer(self) -> Mapping[str, Any]:
        """Make as many requests as are asked for, as long as a draft."""
        row = {"request": TYPICAL.draft, "lacks": SAMPLE_REASON}
        return {"requests": [row] * self.config.per_group}

    def title(self, number: int) -> str:
        """Such as "requests that no tool fits, near shop.orders"."""
        return f"requests that no tool fits, near {self.groups[number].name}"

    def describe(self, answer: StepAnswer[Outcomes]) -> str:
        """Describe what became of each request, a line each."""
        return "\n".join(
            f"accepted: {one.text} (lacks: {one.lacks})"
            if isinstance(one, MissingRequest)
            else describe_missing_ending(one.outcome, one.reason, one.detail)
            for one in self.outcomes(answer)
        )

    def choose(self, run: StepRun) -> int | None:
        """Choose the next group; stop after the first few if no request passed."""
        if run.begun >= UNUSABLE_AT_FIRST and not (self._passed or run.missing):
            return None
        return super().choose(run)

    def accept(self, number: int, answer: StepAnswer[Outcomes], run: StepRun) -> None:
        """Take the answer for a group."""
        super().accept(number, answer, run)
        outcomes = self.outcomes(answer)
        passed = sum(isinstance(one, MissingRequest) for one in outcomes)
        self._passed += passed
        self._lost_texts += len(outcomes) - passed

    def progress(self) -> tuple[int, int]:
        """Count the groups whose reply came, and the requests that are lost."""
        return len(self.answers), self._lost_texts

    def fold(self, run: StepRun) -> StepResult[MissingQueries]:
        """Collect the queries in the order of groups.

        Raises:
            ToolbankError: there is none.
        """
        engine, replies = run.pool.engine, len(self.answers)
        queries, losses = list[Query](), Losses()
        not_accepted: list[dict[str, str]] = []
        texts: list[str] = []
        seen = NearDuplicates(ALIKE, texts.__getitem__)
        for number, answer in sorted(self.answers.items()):
            group = self.groups[number]
            for one in self.outcomes(answer):
                if isinstance(one, MissingRequest):
                    like = seen.find_like(one.text)
                    if like is None:
                        texts.append(one.text)
                        seen.add(one.text)
                        queries.append(self._make(one, group, answer, engine))
                        continue
                    one = MissingLoss("rejected", "near-duplicate", texts[like])
                losses.add(one.outcome, one.reason, one.detail)
                row = {"group": group.name, **asdict(one)}
                not_accepted.append({**row, "request": next(iter(answer.keys), "")})
        if not (queries or run.waiting):
            look = f"Look at what {engine.name} is asked and answers: toolbank preview RECIPE."
            tried = count(replies, "reply", "replies")
            reasons = losses.list_reasons()
            raise ToolbankError(run.explain_nothing("a query", tried, reasons, [look]))
        # Accepted + declined + rejected + failed = `per_group` for each group, and those too many.
        content = {
            **describe_writer(engine, self.hash),
            "counts": {
                "groups": replies,
                "accepted": len(queries),
                **losses.counts(),
            },
            "not_accepted": not_accepted,
        }
        gone = self.total - replies + self.failures.total()
        problems = (
            f"not accepted: {said}" if (said := losses.describe("rejected")) else "",
            f"not written by {engine.name}: {declined:,}"
            if (declined := losses.of["declined"].total())
            else "",
        )
        return StepResult(
            MissingQueries(queries, content),
            f"{count(len(queries), 'query', 'queries')} that no tool should fit, near "
            f"{count(replies, 'group')} of tools",
            lacks=f"queries for {gone:,} of {self.total:,} groups" if gone else "",
            problems=tuple(filter(None, problems)),
            failed=join_reasons(losses.of["failed"]),
        )

    def _make(
        self,
        one: MissingRequest,
        group: ToolGroup,
        answer: StepAnswer[Outcomes],
        engine: Engine,
    ) -> Query:
        provenance = Provenance(
            attempt=number_from_text(f"missing {group.name}"),
            engine=engine.name,
            model=answer.model,
            prompt_hash=self.hash,
            seed=self._seed,
            requests=answer.keys,
        )
        # Grades are stored by id, and stay valid when other groups change.
        return Query(
            id=f"missing-{number_from_text(one.text):012x}",
            query=one.text,
            tools=(),
            explanation=one.lacks,
            domain=group.name,
            provenance=provenance,
        )


def describe_missing_ending(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 100)"."""
    return describe_ending(outcome, reason or "the writer wrote fewer", detail)


def write_missing(
    tools: Sequence[Tool],
    config: MissingConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
) -> StepResult[MissingQueries]:
    """Generate queries that no tool should fit, one call for each group of tools.

    The result depends on the arguments and the journal alone, whatever the concurrency. Keys of the
    content: the writer (`engine`, `model`, `prompt_hash`), `counts`, and `not_accepted`, a row with
    the reason for each request that is not in the result.

    Raises:
        InputError: the engine or the prompt can't be used.
        ToolbankError: nothing that it writes can be used, the endpoint is down or refuses, or the
            run was interrupted. What was in flight has finished, and every reply is in the journal.
    """
    context = EngineContext(tools, seed, journal.path.parent)
    return run_step(
        config, journal, context, partial(MissingStep, tools, config, domain, seed)
    )
