"""The plans of a bank, and the prompts for the next step."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, top_k
from toolbank.bank.records import Query
from toolbank.llm.chat import ChatRequest, Message, number_from_text
from toolbank.llm.templates import PromptTemplate
from toolbank.papers.planner.config import GOLD, NONE, RANDOM, TEMPLATE
from toolbank.retrievers.base import FitContext, Retriever, title_and_summary
from toolbank.run.fit import load_fitted
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.bank.records import Split, Tool
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe
    from toolbank.training.text import Ids


_CALL = re.compile(r"\bcall\s+(?:the\s+)?[`'\"]?([^\s`'\",;()]+)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*(?:step\s*)?\d+(?:\.\d+)*\s*[.:)]?\s+", re.IGNORECASE)


@dataclass(frozen=True)
class PlanStep:
    """A step of a plan, and the tool that it calls."""

    text: str
    tool: str


@dataclass(frozen=True)
class RequestPlan:
    """A request and its steps, at least one."""

    id: str
    query: str
    steps: tuple[PlanStep, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """The distinct tools of all steps."""
        return tuple(dict.fromkeys(step.tool for step in self.steps))


@dataclass(frozen=True)
class PlanStepExample:
    """Step `number` of a plan, from 0, to predict from the steps before it."""

    plan: RequestPlan
    number: int

    @property
    def step(self) -> PlanStep:
        """The step to predict."""
        return self.plan.steps[self.number]

    @property
    def history(self) -> tuple[PlanStep, ...]:
        """The steps before it."""
        return self.plan.steps[: self.number]

    @property
    def is_last(self) -> bool:
        """Whether it is the last step of the plan."""
        return self.number == len(self.plan.steps) - 1


def read_plans(bank: Bank, queries: Sequence[Query]) -> tuple[list[RequestPlan], int]:
    """Read plans from explanations with a step per line; also count the lines that are no step.

    The tool of a step is the one that its text names, not the one at its position among the tools of
    the query, which are distinct. Lines that name no tool of the bank are skipped, and so are queries
    without any other line.

    Raises:
        InputError: the tools of the bank's queries have no order.
    """
    if not bank.info.get("ordered", True):
        raise InputError(
            "planner: a plan needs the order of calls, and the tools of this bank's queries have "
            "none (`ordered: false`). Use a dataset with ordered tools, and set "
            "`dataset.ordered: true`."
        )
    plans, left_out = [], 0
    for query in queries:
        lines = [line for line in query.explanation.splitlines() if line.strip()]
        steps = [step for line in lines if (step := read_step(line, bank.index))]
        left_out += len(lines) - len(steps)
        if steps:
            plans.append(RequestPlan(query.id, query.query, tuple(steps)))
    return plans, left_out


def read_step(line: str, tools: Collection[str]) -> PlanStep | None:
    """Read a step without its number; None if it names none of the tools.

    Its tool is the one after "Call", or else the first word that is the name of a tool.
    """
    text = " ".join(_NUMBER.sub("", line, count=1).split())
    named = read_tool(text)
    if named in tools:
        return PlanStep(text, named)
    words = (word.strip(".,;:'\"`()") for word in text.split())
    tool = next((word for word in words if word in tools), None)
    return PlanStep(text, tool) if tool else None


def read_tool(text: str) -> str:
    """Read the NAME of "Call NAME", whether there is such a tool or not; "" without a "Call"."""
    found = _CALL.search(text)
    return found[1].rstrip(".:") if found else ""


def unroll(plans: Sequence[RequestPlan]) -> list[PlanStepExample]:
    """Make an example per step, in order (arXiv 2312.10332, section 3.2)."""
    return [PlanStepExample(plan, n) for plan in plans for n in range(len(plan.steps))]


def read_examples(
    run: Path, bank: Bank, split: Split
) -> tuple[list[PlanStepExample], int]:
    """Read the steps of a split's plans, and count the lines that are no step.

    `run` is the folder for messages.

    Raises:
        InputError: there is no step, or the tools of the bank's queries have no order.
    """
    plans, left_out = read_plans(bank, bank.split(split))
    if not plans:
        raise InputError(
            f"{run}: no {split} query has a step that names its tool. A plan is the query's "
            'explanation, or its "steps": one per line, such as "Call get_weather to see whether it '
            'rains".'
        )
    return unroll(plans), left_out


@runtime_checkable
class SearchesNext(Protocol):
    """A retriever that was trained to search for the next tool of a plan."""

    def search_next(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]], k: int
    ) -> Hits:
        """Search for the tools of each request's next step."""


@dataclass(frozen=True)
class CandidateSampler:
    """Choose candidate tools for the examples of a bank, with the same result for the same seed.

    `retrievers` are by label.
    """

    bank: Bank
    k: int
    seed: int
    retrievers: Mapping[str, Retriever] = field(default_factory=dict)

    @classmethod
    def of_run(
        cls, recipe: Recipe, folder: RunFolder, labels: Collection[str]
    ) -> CandidateSampler:
        """Read the bank and the retrievers of a run whose recipe has a planner."""
        fitted = {label: load_fitted(recipe, folder, label) for label in sorted(labels)}
        most = recipe.planner.candidates if recipe.planner else 0
        # Tools that a grader found are in no order of calls.
        bank = Bank.load(folder.bank, settled=False)
        return cls(bank, most, recipe.seed, fitted)

    def choose(
        self,
        source: str,
        examples: Sequence[PlanStepExample],
        *,
        stepwise: bool = False,
    ) -> list[list[str]]:
        """Choose the tools of each example: best first, or in random order without a retriever.

        `source` is GOLD, RANDOM, NONE, or the label of a retriever. With `stepwise`, a retriever
        takes the steps before into account.
        """
        retriever = self.retrievers.get(source)
        if retriever is None:
            return [self._draw(source, example) for example in examples]
        queries = [example.plan.query for example in examples]
        if stepwise:
            histories = [[step.tool for step in e.history] for e in examples]
            return search_next(retriever, self.bank, queries, histories, self.k)
        return _names(retriever, retriever.search(queries, self.k)[0])

    def choose_train(
        self, source: str, examples: Sequence[PlanStepExample]
    ) -> list[list[str]]:
        """As `choose`, but with held-out hits of the retriever, and with the plan's tools added.

        Those that were not found replace the last of the others.
        """
        retriever = self.retrievers.get(source)
        if retriever is None:
            return self.choose(source, examples)
        places = {q.id: i for i, q in enumerate(self.bank.train_queries)}
        context = FitContext(seed=self.seed)
        hits, _ = retriever.search_train(self.bank, self.k, context)
        found = _names(retriever, hits)
        chosen = []
        for example in examples:
            names = found[places[example.plan.id]]
            own = example.plan.tools
            others = [name for name in names if name not in own]
            kept = {*own, *others[: max(0, self.k - len(own))]}
            chosen.append(list(dict.fromkeys(n for n in (*names, *own) if n in kept)))
        return chosen

    def show(
        self,
        examples: Sequence[PlanStepExample],
        chosen: Sequence[Sequence[str]],
        *,
        history: bool,
    ) -> list[Situation]:
        """Make the situation of each example: its shuffled tools, and the steps before."""
        shown = []
        for example, names in zip(examples, chosen, strict=True):
            random = Random(f"{self.seed}:show:{example.plan.id}:{example.number}")
            tools = random.sample(list(names), len(names))
            steps = [step.text for step in example.history] if history else []
            shown.append(Situation(example.plan.query, tuple(tools), tuple(steps)))
        return shown

    def _draw(self, source: str, example: PlanStepExample) -> list[str]:
        if source == NONE:
            return []
        names = list(example.plan.tools)
        random = Random(f"{self.seed}:{source}:{example.plan.id}:{example.number}")
        if source == RANDOM:
            own = set(names)
            others = [name for name in self.bank.tool_names if name not in own]
            free = max(0, self.k - len(names))
            names += random.sample(others, min(free, len(others)))
        elif source != GOLD:
            raise ValueError(f"{source} needs its retriever")
        return random.sample(names, len(names))


def search_next(
    retriever: Retriever,
    bank: Bank,
    queries: Sequence[str],
    histories: Sequence[Sequence[str]],
    k: int,
) -> list[list[str]]:
    """Find the best k tools for each request's next step; those of the steps before come last.

    A retriever trained to subtract does so (arXiv 2312.10332, equation 1). For any other, the scores
    of the tools before, as texts, are subtracted from those of the request. That is the same if
    scores are inner products, as cosines and BM25 are.
    """
    if isinstance(retriever, SearchesNext):
        return _names(retriever, retriever.search_next(queries, histories, k)[0])
    texts = dict(zip(bank.tool_names, map(title_and_summary, bank.tools), strict=True))
    used = list(dict.fromkeys(name for history in histories for name in history))
    distinct = list(dict.fromkeys(queries))
    by_text = dict(zip(distinct, _scores(retriever, distinct), strict=True))
    by_tool = dict(
        zip(used, _scores(retriever, [texts[name] for name in used]), strict=True)
    )
    places = {name: place for place, name in enumerate(retriever.tools)}
    left = np.stack([by_text[query] for query in queries])
    for row, history in enumerate(histories):
        for name in dict.fromkeys(history):
            left[row] -= by_tool[name]
        left[row, [places[name] for name in history]] = -np.inf
    ties = retriever.draw_ties(queries)
    return _names(retriever, top_k(left.astype(np.float32), k, ties)[0])


def _scores(retriever: Retriever, texts: Sequence[str]) -> NDArray[np.float64]:
    """The scores of every tool for each text [n, n_tools]; the lowest is 0, also for tools not found."""
    scores = np.full((len(texts), len(retriever.tools)), np.nan)
    hits, found = retriever.search(texts, len(retriever.tools))
    for row, (places, values) in enumerate(zip(hits, found, strict=True)):
        there = places >= 0
        scores[row, places[there]] = values[there] - values[there].min(initial=0.0)
        if there.all():
            scores[row] -= scores[row].min()
    return np.asarray(np.nan_to_num(scores))


def _names(retriever: Retriever, hits: NDArray[np.int64]) -> list[list[str]]:
    return [[retriever.tools[place] for place in row if place >= 0] for row in hits]


STEP, LAST = "step", "last"
"""The keys of an answer: the step, and whether it ends the plan."""

_SUMMARY_CHARACTERS = 120


@dataclass(frozen=True)
class Situation:
    """A request, its candidate tools, and the texts of the steps before, oldest first."""

    request: str
    tools: tuple[str, ...]
    history: tuple[str, ...]


class PlannerPrompts:
    """Prompts of situations, from the template and the summaries of tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._template = PromptTemplate(TEMPLATE)
        self._shown: Mapping[str, Mapping[str, str]] = {
            tool.name: {"name": tool.name, "summary": _summarise(tool)}
            for tool in tools
        }

    def render(self, situation: Situation, *, as_json: bool = False) -> str:
        """Render the prompt.

        Raises:
            InputError: the user's prompts/plan-step.j2 is broken.
        """
        return self._template.render(
            request=situation.request,
            tools=[self._shown[name] for name in situation.tools],
            history=list(situation.history),
            as_json=as_json,
        )

    def make_request(self, situation: Situation) -> ChatRequest:
        """Make the request to an engine for the next step.

        Raises:
            InputError: the user's prompts/plan-step.j2 is broken.
        """
        text = self.render(situation, as_json=True)
        return ChatRequest(
            attempt=number_from_text(situation.request),
            step="plan",
            messages=(Message("user", text),),
            schema=self._template.schema,
        )

    def fit(
        self, situation: Situation, tokenise: Callable[[str], Ids], room: int
    ) -> tuple[Ids, bool]:
        """Fit the prompt into `room` tokens; also return whether it was cut.

        The oldest steps are removed first. If that is not enough, the beginning is.
        """
        history = situation.history
        for start in range(len(history) + 1):
            kept = Situation(situation.request, situation.tools, history[start:])
            ids = tokenise(self.render(kept) + "\n")
            if len(ids) <= room:
                return ids, start > 0
        return ids[-room:], True


def _summarise(tool: Tool) -> str:
    said = tool.summary or tool.description
    return textwrap.shorten(said, _SUMMARY_CHARACTERS, placeholder=" ...")
