"""Grade requests by an engine or by a file of grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import Asset, find_asset
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Message,
    Rejection,
    VerifyTask,
    number_from_text,
)
from toolbank.llm.step import (
    SAMPLE_SIZE,
    SampleCalls,
    Step,
    StepResult,
    StepRun,
    StepSample,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.candidates import Candidate
from toolbank.requests.verify.gradings import Grading, make_grading, read_grades
from toolbank.requests.write.prompts import SAMPLE_REASON, brief, sample_drafts
from toolbank.system.numbers import count

TEMPLATE = "verify.j2"


class VerifyPrompts:
    """The prompts of one run. `hash` is the hash of their template."""

    def __init__(self, bank: Bank, domain: str, seed: int) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._bank = bank
        self._domain = domain
        self._seed = seed
        self._template = PromptTemplate(TEMPLATE)

    def ask(self, query: Query, candidates: Sequence[Candidate]) -> ChatRequest:
        """Make the request that grades a request's candidates, shuffled and without its labels.

        Raises:
            InputError: the user's own template is broken.
        """
        names = [row.tool for row in candidates]
        Random(f"{self._seed}:verify:{query.id}").shuffle(names)
        tools = [self._bank.tools[self._bank.index[name]] for name in names]
        prompt = self._template.render(
            domain=self._domain,
            request=query.query,
            tools=[brief(tool) for tool in tools],
        )
        return ChatRequest(
            attempt=number_from_text(query.query),
            step="verify",
            messages=(Message("user", prompt),),
            schema=self._template.schema,
            task=VerifyTask(query.id, tuple(names)),
        )


def sample_grades(
    tools: Sequence[Tool], config: VerifyConfig, domain: str, seed: int, queries: int
) -> StepSample:
    """Sample gradings of drafts over random tools, as many as there are candidates at most.

    Raises:
        InputError: the prompt or an example can't be used.
    """
    prompts = VerifyPrompts(Bank(tuple(tools)), domain, seed)
    most = min(2 * config.candidates, len(tools))
    requests = []
    for number, draft in enumerate(sample_drafts(domain)[:SAMPLE_SIZE]):
        shown = Random(f"{seed}:plan:{number}").sample(range(len(tools)), most)
        candidates = [
            Candidate(query="", key="", tool=tools[place].name, found_by=())
            for place in shown
        ]
        query = Query(id=str(number), query=draft.draft, tools=())
        requests.append(prompts.ask(query, candidates))
    label = {"tool": "module.function", "for": "module.function", "why": SAMPLE_REASON}
    answer = {"needed": [label] * 3, "alternatives": [label] * 2, "aside": ""}
    calls = SampleCalls("verify", requests, [answer], "verify")
    return StepSample(queries, (calls,))


def verify_assets() -> tuple[Asset, ...]:
    """List the files of the prompts."""
    return (find_asset("prompts", TEMPLATE),)


@dataclass(frozen=True)
class Grades:
    """The gradings by an engine, and their part of verify.json."""

    gradings: Sequence[Grading] = ()
    content: Mapping[str, Any] = field(default_factory=dict)


class GradeStep(Step[tuple[Label, ...], Grades]):
    """Grade requests independently of each other; `by` is the kind of grader.

    An engine with its own `queries` grades only these, and may name any tool of the bank.

    Raises:
        InputError: the prompt isn't there.
    """

    done = "graded"

    def __init__(
        self,
        bank: Bank,
        candidates: Mapping[str, Sequence[Candidate]],
        config: VerifyConfig,
        domain: str,
        seed: int,
        engine: Engine,
        by: GraderKind,
    ) -> None:
        brought: Collection[str] | None = getattr(engine, "queries", None)
        self._queries = [
            query for query in bank.queries if brought is None or query.id in brought
        ]
        super().__init__(config, len(self._queries))
        self._by = by
        self._source = engine.model
        self._tools = bank.index.keys() if brought is not None else None
        self._prompts = VerifyPrompts(bank, domain, seed)
        self._candidates = candidates

    def request(self, number: int) -> ChatRequest:
        """Make the request that grades a request."""
        query = self._queries[number]
        return self._prompts.ask(query, self._candidates[query.id])

    def read(self, number: int, reply: ChatReply) -> tuple[Label, ...] | Rejection:
        """Read the labels of a request."""
        query = self._queries[number]
        tools = self._tools or {row.tool for row in self._candidates[query.id]}
        return read_grades(reply, query.id, tools)

    def fold(self, run: StepRun) -> StepResult[Grades]:  # noqa: ARG002
        """Make a grading of each request whose reply can be read."""
        answers = sorted(self.answers.items())
        lost = [
            (self._queries[number].id, answer.value)
            for number, answer in answers
            if isinstance(answer.value, Rejection)
        ]
        gone = self.total - len(answers) + self.failures.total()
        why = join_reasons(Counter(rejection.reason for _, rejection in lost))
        return StepResult(
            Grades(
                [
                    self._make_grading(number, answer.value)
                    for number, answer in answers
                    if not isinstance(answer.value, Rejection)
                ],
                {
                    "model": self._source,
                    "prompt_hash": self._prompts.hash,
                    "not_graded": [
                        {
                            "query": query,
                            "reason": rejection.reason,
                            "detail": rejection.detail,
                        }
                        for query, rejection in lost
                    ],
                },
            ),
            "",
            f"grades of {gone:,} of {count(self.total, 'request')}" if gone else "",
            (f"not graded, their labels are unchanged: {why}",) if why else (),
            join_reasons(self.failures),
        )

    def _make_grading(self, number: int, labels: Sequence[Label]) -> Grading:
        query = self._queries[number]
        shown = self._candidates[query.id]
        key = shown[0].key if shown else ""
        return make_grading(query.id, query.query, self._by, self._source, labels, key)
