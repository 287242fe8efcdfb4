"""Grade requests by a model, in one call or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, get_args

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import find_asset
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Rejection,
    VerifyTask,
    number_from_text,
)
from toolbank.llm.step import (
    SAMPLE_SIZE,
    FollowUp,
    SampleCalls,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    StepSample,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.verify import OTHERS, REGRADE, TEMPLATE, VerifyConfig
from toolbank.requests.verify.candidates import Candidate
from toolbank.requests.verify.directions import own_labels
from toolbank.requests.verify.further import (
    FurtherTools,
    MatchKind,
    read_free_answers,
)
from toolbank.requests.verify.gradings import Grading, make_grading, read_grades
from toolbank.requests.write.prompts import SAMPLE_REASON, brief, sample_drafts
from toolbank.system.numbers import count


class VerifyPrompts:
    """The prompts of one run. `hash` is the hash of their template."""

    def __init__(self, bank: Bank, domain: str, seed: int) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._bank = bank
        self._domain = domain
        self._seed = seed
        self._template = PromptTemplate(TEMPLATE)

    def ask(
        self, query: Query, names: Sequence[str], *, again: bool = False
    ) -> ChatRequest:
        """Make the request that grades tools of a request, shuffled and without its labels.

        The first one also asks which tools are missing from the list; `again` is the second one.

        Raises:
            InputError: the user's own template is broken.
        """
        step = REGRADE if again else "verify"
        names = list(names)
        Random(f"{self._seed}:{step}:{query.id}").shuffle(names)
        tools = [self._bank.tools[self._bank.index[name]] for name in names]
        request = self._template.request(
            number_from_text(query.query),
            step,
            VerifyTask(query.id, tuple(names)),
            domain=self._domain,
            request=query.query,
            tools=[brief(tool) for tool in tools],
            again=again,
        )
        return replace(request, stricter=_name_tools(request.schema, names))


def _name_tools(schema: Any, names: Sequence[str]) -> Any:
    """Allow only the candidates' names where the schema asks for a tool."""
    if isinstance(schema, list):
        return [_name_tools(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = {key: _name_tools(value, names) for key, value in schema.items()}
    for key in ("tool", "for"):
        # A free answer may have any name: it says what the tool does.
        if isinstance(named.get(key), dict) and "does" not in named:
            named[key] = {**named[key], "enum": list(names)}
    return named


def sample_grades(
    tools: Sequence[Tool], config: VerifyConfig, domain: str, seed: int, queries: int
) -> StepSample:
    """Sample gradings of drafts over random tools, as many as there are candidates at most.

    Raises:
        InputError: the prompt or an example can't be used.
    """
    prompts = VerifyPrompts(Bank(tuple(tools)), domain, seed)
    names = [tool.name for tool in tools]
    label = {"tool": "module.function", "for": "module.function", "why": SAMPLE_REASON}
    answer = {"needed": [label] * 3, "alternatives": [label] * 2, "aside": ""}
    free = {OTHERS: [{"tool": "module.function", "does": SAMPLE_REASON}]}
    drafts = list(enumerate(sample_drafts(domain)[:SAMPLE_SIZE]))

    def ask(most: int, *, again: bool) -> list[ChatRequest]:
        most = min(most, len(names))
        return [
            prompts.ask(
                Query(id=str(number), query=draft.draft, tools=()),
                Random(f"{seed}:plan:{number}").sample(names, most),
                again=again,
            )
            for number, draft in drafts
        ]

    first = ask(config.candidates, again=False)
    calls = [SampleCalls("verify", first, [{**answer, **free}], "first call")]
    if config.second_call or config.holes:
        second = ask(config.second_call + 5, again=True)
        calls.append(SampleCalls(REGRADE, second, [answer], "second call"))
    return StepSample(queries, tuple(calls))


@dataclass(frozen=True)
class GradedRequest:
    """The labels of a request after all its calls.

    `dropped` are the reasons of dropped alternatives. `further` are the tools of the second call,
    each with the directions that found it; `matched` counts the free answers by how they matched,
    and `lost` is why the reply of the second call can't be used, so that the first one counts.
    """

    labels: tuple[Label, ...]
    dropped: tuple[str, ...] = ()
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    matched: Mapping[MatchKind, int] = field(default_factory=dict)
    lost: str = ""

    @property
    def graded(self) -> tuple[str, ...]:
        """The tools that are needed or alternatives."""
        return tuple(label.tool for label in self.labels if label.tool)

    @property
    def needed(self) -> tuple[str, ...]:
        """The tools that are needed."""
        return tuple(one.tool for one in self.labels if one.grade == "needed")


@dataclass(frozen=True)
class Grades:
    """The gradings by one model or several, and what they are made of.

    `further` are the second calls' candidates, and `lost` says for each reply that can't be used
    the `query`, the `reason` and the `detail`. `content` is their part of verify.json.
    """

    model: str = ""
    prompt_hash: str = ""
    gradings: Sequence[Grading] = ()
    graded: Sequence[GradedRequest] = ()
    further: Sequence[Candidate] = ()
    lost: Sequence[dict[str, str]] = ()
    content: Mapping[str, Any] = field(default_factory=dict)

    def count_dropped(self) -> Counter[str]:
        """Count the dropped alternatives by reason."""
        return Counter(reason for one in self.graded for reason in one.dropped)

    def count_second_calls(self) -> dict[str, Any]:
        """Count the second calls, and the free answers by how they matched the catalogue."""
        matched = Counter[MatchKind]()
        for one in self.graded:
            matched.update(one.matched)
        again = [one for one in self.graded if one.further]
        return {
            "requests": len(again),
            "share": len(again) / len(self.graded) if self.graded else 0.0,
            "tools": sum(len(one.further) for one in again),
            "changed": sum(bool({*one.graded} & one.further.keys()) for one in again),
            "not_usable": sum(bool(one.lost) for one in self.graded),
            "free_answers": {kind: matched[kind] for kind in get_args(MatchKind)},
        }


class GradeStep(Step[GradedRequest, Grades]):
    """Grade requests independently of each other; `by` is the kind of grader.

    The first reply may bring further tools: those of its free answers, and neighbours of the tools
    that it needs. They are graded in a second call, with the tools that the first reply named, and
    its reply counts; until it has come, the first one does. `again`: the only call is like a second
    one. An engine with its own `queries` grades only these, in one call, and may name any tool of the
    bank.

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
        further: FurtherTools | None,
        engine: Engine,
        by: GraderKind,
        *,
        again: bool = False,
    ) -> None:
        brought: Collection[str] | None = getattr(engine, "queries", None)
        self._queries = [
            query for query in bank.queries if brought is None or query.id in brought
        ]
        super().__init__(config, len(self._queries))
        self._bank = bank
        self._by = by
        self._source = engine.model
        self._tools = bank.index.keys() if brought is not None else None
        self._prompts = VerifyPrompts(bank, domain, seed)
        self._candidates = candidates
        self._further = further
        self._again = again
        self._most_further = config.second_call
        self._first: dict[int, GradedRequest] = {}
        self.most_calls = 2 if further else 1

    def request(self, number: int) -> ChatRequest:
        """Make the request that grades a request."""
        query = self._queries[number]
        return self._prompts.ask(query, self._shown(query), again=self._again)

    def read(
        self, number: int, reply: ChatReply
    ) -> GradedRequest | Rejection | FollowUp[GradedRequest]:
        """Read the labels of a request, and follow up with further tools, if there are any."""
        query, shown = self._queries[number], self._shown(self._queries[number])
        first = _read(query, reply, self._tools or shown)
        if isinstance(first, Rejection) or self._further is None:
            return first
        found = self._further.find(
            first.needed,
            own_labels(self._bank, query),
            shown,
            self._most_further,
            read_free_answers(reply),
        )
        further, matched = found.tools, found.matched
        first = self._first[number] = replace(first, further=further, matched=matched)
        if not further:
            return first
        names = [*first.graded, *further]
        again = self._prompts.ask(query, names, again=True)
        return FollowUp(again, partial(self._read_again, query, first, names))

    def fold(self, run: StepRun) -> StepResult[Grades]:  # noqa: ARG002
        """Make a grading of each request whose reply can be read."""
        gradings: list[Grading] = []
        graded: list[GradedRequest] = []
        further: list[Candidate] = []
        lost: list[dict[str, str]] = []
        begun = {number: StepAnswer(one) for number, one in self._first.items()}
        for number, answer in sorted({**begun, **self.answers}.items()):
            query, value = self._queries[number], answer.value
            if answer.failure and number in self._first:
                value = replace(self._first[number], lost=answer.failure.reason)
            if isinstance(value, Rejection):
                lost.append({"query": query.id, **asdict(value)})
                continue
            graded.append(value)
            key = next((row.key for row in self._candidates[query.id]), "")
            gradings.append(
                make_grading(
                    query.id, query.query, self._by, self._source, value.labels, key
                )
            )
            make = partial(Candidate, query=query.id, key=key, call_number=2)
            further += [make(tool=n, found_by=by) for n, by in value.further.items()]
        prompt = self._prompts.hash
        grades = Grades(self._source, prompt, gradings, graded, further, lost)
        problems = [
            f"{said}: {join_reasons(reasons)}"
            for said, reasons in (
                ("not graded", Counter(row["reason"] for row in lost)),
                ("alternatives dropped", grades.count_dropped()),
                (
                    "second call not usable, so that the first grades count",
                    Counter(one.lost for one in graded if one.lost),
                ),
            )
            if reasons
        ]
        gone = self.total - len(self.answers) + self.failures.total()
        lacks = f"grades of {gone:,} of {count(self.total, 'request')}" if gone else ""
        failed = join_reasons(self.failures)
        return StepResult(grades, "", lacks, tuple(problems), failed)

    def _shown(self, query: Query) -> list[str]:
        return [row.tool for row in self._candidates[query.id]]

    def _read_again(
        self,
        query: Query,
        first: GradedRequest,
        tools: Sequence[str],
        reply: ChatReply,
    ) -> GradedRequest:
        """Read the reply of the second call; the first counts if this one needs no tool."""
        second = _read(query, reply, tools)
        if isinstance(second, Rejection):
            return replace(first, lost=second.reason)
        if not second.needed:
            return replace(first, lost="nothing-needed" if first.needed else "")
        dropped = first.dropped + second.dropped
        return replace(first, labels=second.labels, dropped=dropped)


def _read(
    query: Query, reply: ChatReply, tools: Collection[str]
) -> GradedRequest | Rejection:
    found = read_grades(reply, query.id, frozenset(tools))
    if isinstance(found, Rejection):
        return found
    labels, dropped = found
    return GradedRequest(labels, tuple(one.reason for one in dropped))
