"""Ask an engine for grades, or read them from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import Asset, find_asset
from toolbank.llm.accounts import list_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    EngineError,
    Message,
    Rejection,
    VerifyTask,
    number_of,
)
from toolbank.llm.engines.kind import EngineKind, refuse_settings
from toolbank.llm.step import Step, StepResult, StepRun
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.verify.candidates import Candidate
from toolbank.requests.verify.config import VerifyConfig
from toolbank.requests.verify.gradings import Grading, make_grading, read_grades
from toolbank.requests.write.prompts import brief
from toolbank.requests.write.writers import find_replies
from toolbank.system.errors import InputError
from toolbank.system.files import get_text, json_text, read_lines, sha256_file
from toolbank.system.numbers import count

TEMPLATE = "verify.j2"


class VerifyPrompts:
    """The prompts of one run. `hash` names their file."""

    def __init__(self, bank: Bank, domain: str, seed: int) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._bank = bank
        self._domain = domain
        self._seed = seed
        self._template = PromptTemplate(TEMPLATE)

    def ask(self, query: Query, candidates: Sequence[Candidate]) -> ChatRequest:
        """Ask for the grades of a request's candidates, shuffled, without its labels.

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
            attempt=number_of(query.query),
            step="verify",
            messages=(Message("user", prompt),),
            schema=self._template.schema,
            task=VerifyTask(query.id, tuple(names)),
        )


def verify_assets() -> tuple[Asset, ...]:
    """The file that shapes the prompts."""
    return (find_asset("prompts", TEMPLATE),)


@dataclass(frozen=True)
class Grades:
    """What an engine graded: gradings of requests, and what of it is for verify.json."""

    gradings: Sequence[Grading] = ()
    content: Mapping[str, Any] = field(default_factory=dict)


class GradeStep(Step[tuple[Label, ...], Grades]):
    """Grades of one request after the other; none counts for another.

    `by` is who gives them. Of requests that the engine doesn't bring, where it brings its own, none are asked for; such an
    engine may name any tool of the bank.

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
        """Ask for the grades of a request."""
        query = self._queries[number]
        return self._prompts.ask(query, self._candidates[query.id])

    def read(self, number: int, reply: ChatReply) -> tuple[Label, ...] | Rejection:
        """The labels of a request."""
        query = self._queries[number]
        tools = self._tools or {row.tool for row in self._candidates[query.id]}
        return read_grades(reply, query.id, tools)

    def fold(self, run: StepRun) -> StepResult[Grades]:  # noqa: ARG002
        """A grading of each request whose reply can be read."""
        answers = sorted(self.answers.items())
        lost = [
            (self._queries[number].id, answer.value)
            for number, answer in answers
            if isinstance(answer.value, Rejection)
        ]
        gone = self.total - len(answers) + self.failures.total()
        why = list_reasons(Counter(rejection.reason for _, rejection in lost))
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
            (f"not graded, so that their labels stay as they were: {why}",)
            if why
            else (),
            list_reasons(self.failures),
        )

    def _make_grading(self, number: int, labels: Sequence[Label]) -> Grading:
        query = self._queries[number]
        shown = self._candidates[query.id]
        key = shown[0].key if shown else ""
        return make_grading(query.id, query.query, self._by, self._source, labels, key)


_KEYS = ("query", "needed", "alternatives", "aside")
_TOOLS = ("tool", "for")


class RecordedGrades:
    """Each line of the file is a reply to the request whose id it has as `query`; `queries` are those.

    `model` is the name of the file, as whose the grades are stored.

    Raises:
        InputError: as of `read_grades_file`.
    """

    name = "recorded"
    offers = None

    def __init__(self, path: Path, tools: Iterable[Tool]) -> None:
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
        self._replies = read_grades_file(path, tools)
        self.queries = frozenset(self._replies)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Give the grades of the request.

        Raises:
            EngineError: it is no request for grades.
        """
        task = request.task
        if not isinstance(task, VerifyTask):
            raise EngineError(
                "recorded grades answer nothing but requests for grades.",
                reason="no-task",
            )
        return ChatReply(self._replies[task.query], self.model)

    async def close(self) -> None:
        """Nothing is held open."""


def read_grades_file(
    path: Path, tools: Iterable[Tool], queries: Collection[str] | None = None
) -> dict[str, str]:
    """Read a file of grades: by the id of its request, each line's grades as a reply has them.

    Tools have their own names in the replies. With `queries`, a line of another request is refused.

    Raises:
        InputError: the file can't be read, is empty, or lines are wrong: which and why.
    """
    bank = Bank(tuple(tools))
    names = {name: bank.tools[place].name for name, place in bank.index.items()}
    lines: dict[str, int] = {}

    def parse(row: dict[str, Any], number: int) -> tuple[str, str]:
        query = get_text(row, "query")
        if unknown := [key for key in row if key not in _KEYS]:
            raise ValueError(
                f"unknown key {unknown[0]!r}; there are: {', '.join(_KEYS)}"
            )
        if queries is not None and query not in queries:
            raise ValueError(f"no request of this bank has the id {query!r}")
        if query in lines:
            raise ValueError(f"{query!r} is graded in line {lines[query]} already")
        lines[query] = number
        return query, _check_grades(row, query, names)

    try:
        replies = dict(read_lines(path, parse))
    except InputError as error:
        raise InputError(
            f"{error}\nNothing was changed. A line is "
            '{"query": ID, "needed": [{"tool": NAME, "why": TEXT}], "alternatives": [{"tool": NAME, '
            '"for": NAME, "why": TEXT}], "aside": TEXT}. Only "query", and "needed" or "aside", '
            "have to be there."
        ) from error
    if not replies:
        raise InputError(f"{path}: no recorded grades in this file.")
    return replies


def _check_grades(row: Mapping[str, Any], query: str, names: Mapping[str, str]) -> str:
    """The grades of a line, with the tools' own names.

    Raises:
        ValueError: they are wrong.
    """
    grades = {key: row[key] for key in row if key != "query"}
    for key in ("needed", "alternatives"):
        rows = grades.get(key)
        for one in rows if isinstance(rows, list) else ():
            name = one.get("tool") if isinstance(one, dict) else None
            if isinstance(name, str) and name not in names:
                raise ValueError(f'"{key}": no tool of this bank is named {name!r}')
        if isinstance(rows, list):
            grades[key] = [_name_own(one, names) for one in rows]
    text = json_text(grades)
    found = read_grades(ChatReply(text, ""), query, names.keys())
    if isinstance(found, Rejection):
        raise ValueError(f"{found.reason}: {found.detail}")
    return text


def _name_own(one: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(one, dict):
        return one
    return {
        key: names.get(value, value)
        if key in _TOOLS and isinstance(value, str)
        else value
        for key, value in one.items()
    }


def _check(config: VerifyConfig) -> None:
    refuse_settings(config)
    find_replies(config.section, config.replies)


KIND = EngineKind["VerifyConfig"](
    name="recorded",
    make=lambda config, context: RecordedGrades(
        find_replies(config.section, config.replies), context.tools
    ),
    check=_check,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    plays_back=True,
)
