"""The plans of a bank, and the prompts that ask for the next step."""

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
from toolbank.llm.chat import ChatRequest, Message, number_of
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
    """What is done at a step, and by which tool."""

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
        """The tools of all steps, none twice."""
        return tuple(dict.fromkeys(step.tool for step in self.steps))


@dataclass(frozen=True)
class PlanStepExample:
    """Step `number` of a plan, from 0, which is to be said by the steps before it."""

    plan: RequestPlan
    number: int

    @property
    def step(self) -> PlanStep:
        """What is to be said."""
        return self.plan.steps[self.number]

    @property
    def history(self) -> tuple[PlanStep, ...]:
        """The steps before."""
        return self.plan.steps[: self.number]

    @property
    def is_last(self) -> bool:
        """Whether the plan ends with it."""
        return self.number == len(self.plan.steps) - 1


def read_plans(bank: Bank, queries: Sequence[Query]) -> tuple[list[RequestPlan], int]:
    """The plans of queries whose explanation has a step a line, and how many lines are no step.

    A step's tool is the one that its text names, and not the one at its place among the query's
    tools, which holds none twice. Lines that name no tool of the bank are counted and left out; so
    is a query all of whose lines are.

    Raises:
        InputError: the bank says that the order of its queries' tools means nothing.
    """
    if not bank.info.get("ordered", True):
        raise InputError(
            "planner: a plan has its steps in the order of calls, and in this bank that order "
            "means nothing (`ordered: false`). Use a dataset whose tools are ordered, and say so "
            "by `dataset.ordered: true`."
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
    """A step without its number; None where it names none of the tools.

    The tool is the one after "Call", or else the first word that is the name of one.
    """
    text = " ".join(_NUMBER.sub("", line, count=1).split())
    named = read_tool(text)
    if named in tools:
        return PlanStep(text, named)
    words = (word.strip(".,;:'\"`()") for word in text.split())
    tool = next((word for word in words if word in tools), None)
    return PlanStep(text, tool) if tool else None


def read_tool(text: str) -> str:
    """The tool that a step calls, whether there is one of this name or not: the NAME of "Call NAME".

    "" where it has no "Call".
    """
    found = _CALL.search(text)
    return found[1].rstrip(".:") if found else ""


def unroll(plans: Sequence[RequestPlan]) -> list[PlanStepExample]:
    """One example a step, in the order of plans and steps (arXiv 2312.10332, section 3.2)."""
    return [PlanStepExample(plan, n) for plan in plans for n in range(len(plan.steps))]


def read_examples(
    run: Path, bank: Bank, split: Split
) -> tuple[list[PlanStepExample], int]:
    """The steps of a split's plans, and how many lines were no step; `run` has the bank.

    Raises:
        InputError: there is none, or the order of the bank's tools means nothing.
    """
    plans, left_out = read_plans(bank, bank.split(split))
    if not plans:
        raise InputError(
            f"{run}: no {split} query has a step that names its tool. A plan is the query's "
            'explanation, or its "steps": one a line, such as "Call get_weather to see whether it '
            'rains".'
        )
    return unroll(plans), left_out


@runtime_checkable
class SearchesNext(Protocol):
    """A retriever that looks for a plan's next tool by what it has learnt."""

    def search_next(
        self, queries: Sequence[str], histories: Sequence[Sequence[str]], k: int
    ) -> Hits:
        """The best tools for each request's next step."""


@dataclass(frozen=True)
class CandidateSampler:
    """Chooses tools for the examples of one bank; the same seed, the same tools.

    `retrievers` are those that may be asked, by their labels.
    """

    bank: Bank
    k: int
    seed: int
    retrievers: Mapping[str, Retriever] = field(default_factory=dict)

    @classmethod
    def of_run(
        cls, recipe: Recipe, folder: RunFolder, labels: Collection[str]
    ) -> CandidateSampler:
        """Of the bank and the retrievers of a run whose recipe has a planner."""
        fitted = {label: load_fitted(recipe, folder, label) for label in sorted(labels)}
        most = recipe.planner.candidates if recipe.planner else 0
        return cls(Bank.load(folder.bank), most, recipe.seed, fitted)

    def choose(
        self,
        source: str,
        examples: Sequence[PlanStepExample],
        *,
        stepwise: bool = False,
    ) -> list[list[str]]:
        """The tools for each example, best first; what no retriever has ordered is in random order.

        `source` is one of GOLD, RANDOM and NONE, or the label of a retriever; by the latter, with
        `stepwise`, each step is searched for by the steps before it, too.
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
        """As `choose`, but by a retriever that has not seen the request, with the plan's tools put in.

        They take the places of the last others where they are not found.
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
        """What a prompt shows of each example: tools in an order of the seed, the steps before."""
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
    """The best k tools for each request's next step, those of the steps before last.

    A retriever that learnt to subtract does it (arXiv 2312.10332, equation 1). Of any other, the
    scores for the words of the tools before are taken from those for the request: where scores
    are inner products, as cosines and BM25's sums over words are, that is the same subtraction.
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
    order = retriever.draw_ties(queries).order()
    return _names(retriever, top_k(left.astype(np.float32), k, order)[0])


def _scores(retriever: Retriever, texts: Sequence[str]) -> NDArray[np.float64]:
    """What each text scores every tool [n, n_tools], the least being 0, as what isn't found has."""
    scores = np.full((len(texts), len(retriever.tools)), np.nan)
    if not texts:
        return scores
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
"""Under what an answer holds the step, and whether it ends the plan."""

_SUMMARY_CHARACTERS = 120


@dataclass(frozen=True)
class Situation:
    """A request, the tools that are shown, and the texts of the steps before, oldest first."""

    request: str
    tools: tuple[str, ...]
    history: tuple[str, ...]


class PlannerPrompts:
    """The texts of situations, by the template and what is said of the tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._template = PromptTemplate(TEMPLATE)
        self._shown: Mapping[str, Mapping[str, str]] = {
            tool.name: {"name": tool.name, "summary": _summarise(tool)}
            for tool in tools
        }

    def render(self, situation: Situation, *, as_json: bool = False) -> str:
        """The prompt.

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
        """Ask an engine for the next step.

        Raises:
            InputError: the user's prompts/plan-step.j2 is broken.
        """
        text = self.render(situation, as_json=True)
        return ChatRequest(
            attempt=number_of(situation.request),
            step="plan",
            messages=(Message("user", text),),
            schema=self._template.schema,
        )

    def fit(
        self, situation: Situation, tokenise: Callable[[str], Ids], room: int
    ) -> tuple[Ids, bool]:
        """The prompt as at most `room` tokens, and whether it was cut to that.

        The oldest steps go first; a prompt that is too long without any loses its beginning.
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
