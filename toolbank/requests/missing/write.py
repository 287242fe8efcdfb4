"""Write queries that no tool of a bank fits: one call per group of tools, folded in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    StepAnswer,
    StepResult,
    StepRun,
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
from toolbank.requests.write.bank_builder import Losses, describe_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.language import ask_in_language
from toolbank.requests.write.near_duplicates import ALIKE, NearDuplicates
from toolbank.requests.write.prompts import SAMPLE_REASON, TYPICAL, brief
from toolbank.requests.write.text_step import TextLoss, TextStep, read_text
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


Outcomes = Mapping[str, MissingRequest | TextLoss]
"""What became of each request of a reply, by its number."""


@dataclass(frozen=True)
class MissingQueries:
    """The accepted queries in the order of groups, without splits, and the content of missing.json."""

    queries: Sequence[Query]
    content: dict[str, Any]


class MissingStep(TextStep[MissingRequest, MissingQueries]):
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
        keys = [str(number + 1) for number in range(config.per_group)]
        super().__init__(config, len(self.groups), keys)
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._domain, self._seed = domain, seed
        self._template = PromptTemplate(TEMPLATE)
        self._similar = SimilarTools(tools)
        self._checker = TextChecker(tools, self._find_examples(), config.language)

    def _find_examples(self) -> list[str]:
        """Find the requests that the template gives as examples."""
        objects = find_objects(self.request(0).prompt) if self.groups else ()
        rows = [row for one in objects for row in _list_rows(one.get("requests"))]
        return [text for row in rows if " " in (text := str(row.get("request")))]

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

    def read(self, number: int, reply: ChatReply) -> Outcomes:  # noqa: ARG002
        """Read the requests of a reply, and why others are not accepted."""
        answer = check_finish(reply) or find_answer(reply.text, ["requests"])
        if not isinstance(answer, Rejection):
            rows = answer["requests"]
            if isinstance(rows, list):
                found = {str(n): self._read(n, row) for n, row in enumerate(rows, 1)}
                return dict.fromkeys(self._keys, TextLoss("declined")) | found
            answer = Rejection("wrong-schema", one_line(str(rows), _EXCERPT))
        lost = TextLoss("rejected", answer.reason, answer.detail)
        return dict.fromkeys(self._keys, lost)

    def _read(self, number: int, row: object) -> MissingRequest | TextLoss:
        if number > self.config.per_group:
            return TextLoss("rejected", "too-many")
        content = row if isinstance(row, Mapping) else {"request": row}
        most = self.config.max_words
        text = read_text(content.get("request"), self._checker, FEWEST_WORDS, most)
        if isinstance(text, TextLoss):
            return text
        lacks = one_line(str(content.get("lacks") or ""), _LONGEST_LACK)
        return MissingRequest(text, replace_surrogates(lacks))

    def describe_text(self, text: MissingRequest) -> str:
        """The request, and what a tool for it would do."""
        return f"{text.text} (lacks: {text.lacks})"

    def sample_answer(self) -> Mapping[str, Any]:
        """Make as many requests as are asked for, as long as a draft."""
        row = {"request": TYPICAL.draft, "lacks": SAMPLE_REASON}
        return {"requests": [row] * self.config.per_group}

    def title(self, number: int) -> str:
        """Such as "requests that no tool fits, near shop.orders"."""
        return f"requests that no tool fits, near {self.groups[number].name}"

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
            for one in self.outcomes(answer).values():
                if isinstance(one, MissingRequest):
                    like = seen.find_like(one.text)
                    if like is None:
                        texts.append(one.text)
                        seen.add(one.text)
                        queries.append(self._make(one, group, answer, engine))
                        continue
                    one = TextLoss("rejected", "near-duplicate", texts[like])
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


def _list_rows(value: object) -> Iterator[Mapping[str, object]]:
    for row in value if isinstance(value, list) else ():
        if isinstance(row, Mapping):
            yield row


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
