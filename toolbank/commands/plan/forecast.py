"""What the calls of a step will come to, reckoned before they are made."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.commands.plan.history import History, read_history
from toolbank.llm.accounts import CHARACTERS_PER_TOKEN, count_characters
from toolbank.llm.chat import WriteTask
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.asks.prompts import AskPrompts, group_asked
from toolbank.requests.judge.judges import TEMPLATE, make_request
from toolbank.requests.verify.candidates import Candidate
from toolbank.requests.verify.grader import VerifyPrompts
from toolbank.requests.write.checks import Draft
from toolbank.requests.write.loop import most_attempts, most_queries, wanted_queries
from toolbank.requests.write.prompts import load_examples
from toolbank.requests.write.sampling import Dealings
from toolbank.run.folder import RunFolder
from toolbank.system.files import read_json

if TYPE_CHECKING:
    from toolbank.bank.catalogue import Catalogue
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest
    from toolbank.llm.config import EngineConfig, SearchModelConfig
    from toolbank.recipe import Recipe
    from toolbank.requests.asks.config import AsksConfig
    from toolbank.requests.verify.config import VerifyConfig
    from toolbank.retrievers.kind import RetrieverConfig

_ORDERS = 2
_PROMPTS = 20
# Attempts a query where nothing is known, at worst; and the replies that are enough to know it by.
_WORST = 2.0
_ENOUGH = 20
# Stands in where there are no examples whose length could be taken.
_TYPICAL = Draft(
    "Our auditor wants every unpaid invoice since March in euros, at the rate of the day it was "
    "issued, as a file that opens in a spreadsheet.",
    ("invoice_search", "currency_conversion"),
    "The invoices found give the amounts to convert, and these are written out.",
)
_REASON = "A sentence that says why, such as this one, is part of every answer."
_POLISHED = {"already_good": False, "reason": _REASON}


@dataclass(frozen=True)
class StepForecast:
    """The calls of one step that are still to be made, and the tokens of one of them.

    `fewest` and `most` differ where it isn't known how many attempts are turned away.
    """

    step: str
    fewest: int
    most: int
    prompt_tokens: float
    completion_tokens: float


@dataclass(frozen=True)
class Forecast:
    """All calls of a stage, step by step, and what they are reckoned from.

    `prompts` is how many of each step were rendered; `accepted` the share of attempts that
    become queries, None where it is not known.
    """

    steps: tuple[StepForecast, ...]
    history: History
    prompts: int
    accepted: float | None = None

    def calls(self, *, most: bool) -> int:
        """The fewest calls, or the most."""
        return sum(s.most if most else s.fewest for s in self.steps)

    def tokens(self, *, most: bool) -> tuple[float, float]:
        """Tokens in and out of the fewest calls, or of the most."""
        counts = [(s.most if most else s.fewest, s) for s in self.steps]
        return (
            sum(n * s.prompt_tokens for n, s in counts),
            sum(n * s.completion_tokens for n, s in counts),
        )


def forecast_generation(
    recipe: Recipe, catalogue: Catalogue, folder: RunFolder
) -> Forecast:
    """Reckon the writes and polishes of a recipe from prompts rendered as its run renders them.

    How many attempts become queries is taken from the folder's bank, or else from how many of
    the drafts in its journal were polished. Where there is neither, all do at best, and every
    second one at worst.

    Raises:
        InputError: the recipe asks for what can't be, such as more tools than there are.
        ToolbankError: the journal is damaged.
    """
    config = recipe.generate
    drafts = _drafts(recipe)
    writes, polishes = _render(recipe, catalogue, drafts)
    history = read_history(folder.journal, config, recipe.seed, writes)
    accepted, polished = _shares(folder, config, history)
    wanted = wanted_queries(config) or 0
    rates = (1.0, _WORST) if accepted is None else (1 / accepted, 1 / accepted)
    limit = most_attempts(config) or math.inf
    attempts = [min(wanted * rate, limit) for rate in rates]
    rewritten = [{**_POLISHED, "query": draft.draft} for draft in drafts]
    return Forecast(
        (
            _forecast_step("write", attempts, writes, map(asdict, drafts), history),
            _forecast_step(
                "polish",
                [polished * number for number in attempts],
                polishes,
                rewritten,
                history,
            ),
        ),
        history,
        len(writes),
        accepted,
    )


def check_prompts(recipe: Recipe, catalogue: Catalogue) -> None:
    """Render the first prompts of a recipe, as its run will.

    Raises:
        InputError: the recipe asks for what can't be, such as more tools than there are.
    """
    _render(recipe, catalogue, _drafts(recipe))


def forecast_asks(
    recipe: Recipe, config: AsksConfig, catalogue: Catalogue, folder: RunFolder
) -> Forecast:
    """Reckon the calls for asks, one for each group of siblings: those that have no reply yet.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    tools, domain = catalogue.tools, recipe.domain_name
    withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
    prompts = AskPrompts(tools, config, domain, withheld, catalogue.earlier)
    requests = [prompts.ask(group) for group in group_asked(tools, withheld)]
    history = read_history(folder.journal, config, recipe.seed, requests, are_all=True)
    answers = [dict.fromkeys(config.keys, _TYPICAL.draft)]
    calls, counted = float(len(requests)), requests[:_PROMPTS]
    step = _forecast_step("ask", [calls, calls], counted, answers, history)
    return Forecast((step,), history, len(counted))


def forecast_verify(
    recipe: Recipe,
    config: VerifyConfig,
    folder: RunFolder,
    tools: Sequence[Tool],
    queries: int,
) -> Forecast:
    """Reckon the calls that grade the candidates of so many queries.

    The prompts have as many tools as candidates at most, drawn at random.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    prompts = VerifyPrompts(Bank(tuple(tools)), recipe.domain_name, recipe.seed)
    most = min(2 * config.candidates, len(tools))
    requests = []
    for number, draft in enumerate(_drafts(recipe)[:_PROMPTS]):
        shown = Random(f"{recipe.seed}:plan:{number}").sample(range(len(tools)), most)
        candidates = [
            Candidate(query="", key="", tool=tools[place].name, found_by=())
            for place in shown
        ]
        query = Query(id=str(number), query=draft.draft, tools=())
        requests.append(prompts.ask(query, candidates))
    history = read_history(folder.journal, config, recipe.seed, ())
    calls = float(queries)
    graded = {"tool": "module.function", "for": "module.function", "why": _REASON}
    answers = [{"needed": [graded] * 3, "alternatives": [graded] * 2, "aside": ""}]
    step = _forecast_step("verify", [calls, calls], requests, answers, history)
    return Forecast((step,), history, len(requests))


def forecast_judge(recipe: Recipe, folder: RunFolder, *, bank_stays: bool) -> Forecast:
    """Reckon the comparisons of a judge that is a model.

    Replies in the journal count where `bank_stays`: else other pairs are drawn.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    config = recipe.judge
    template = PromptTemplate(TEMPLATE)
    requests = [
        make_request(template, number, criterion, draft.draft, draft.draft)
        for number, draft in enumerate(_drafts(recipe))
        for criterion in config.criteria
    ][:_PROMPTS]
    history = read_history(folder.journal, config, recipe.seed, ())
    history = replace(history, is_of_prompts=bank_stays)
    calls = float(most_pairs(recipe) * len(config.criteria) * _ORDERS)
    answers = [{"reason": _REASON, "winner": "A"}]
    step = _forecast_step("judge", [calls, calls], requests, answers, history)
    return Forecast((step,), history, len(requests))


def forecast_searches(
    recipe: Recipe,
    config: RetrieverConfig,
    asked: SearchModelConfig,
    tools: Sequence[Tool],
    texts: Sequence[str],
    calls: int,
) -> Forecast:
    """Reckon the calls of a retriever that asks a model, from prompts about some requests.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    texts = texts or [draft.draft for draft in _drafts(recipe)]
    requests, answers = config.sample_calls(tools, texts[:_PROMPTS])
    history = read_history(asked.known_replies, asked, recipe.seed, requests)
    (name,) = asked.call_steps
    most = [float(calls), float(calls)]
    step = _forecast_step(name, most, requests, answers, history)
    return Forecast((step,), history, len(requests))


def most_pairs(recipe: Recipe) -> int:
    """The pairs that a judge is given: no more than there are queries, where that is known."""
    pairs = recipe.judge.pairs
    if recipe.dataset is not None:
        return pairs
    return min(pairs, most_queries(recipe.generate) or pairs)


def _drafts(recipe: Recipe) -> list[Draft]:
    """Drafts as long as those to come: the queries of the examples in the prompts."""
    return [
        Draft(one.query, tuple(tool.name for tool in one.tools), one.explanation)
        for one in load_examples(recipe.domain_name)
    ] or [_TYPICAL]


def _render(
    recipe: Recipe, catalogue: Catalogue, drafts: Sequence[Draft]
) -> tuple[list[ChatRequest], list[ChatRequest]]:
    """The first prompts of a run, and those that would have these drafts polished."""
    dealings = Dealings(
        catalogue.tools,
        recipe.generate,
        recipe.domain_name,
        recipe.seed,
        earlier=catalogue.earlier,
    )
    writes, polishes = [], []
    for number in range(_PROMPTS):
        dealing = dealings.of(number)
        write = dealing.write_request(number)
        if write is None or not isinstance(write.task, WriteTask):
            break
        task = write.task
        chosen = task.tools[: (task.at_least + task.at_most) // 2]
        draft = drafts[number % len(drafts)]
        writes.append(write)
        polishes.append(dealing.prompts.polish(number, draft, chosen))
    return writes, polishes


def _shares(
    folder: RunFolder, config: EngineConfig, history: History
) -> tuple[float | None, float]:
    """The shares of attempts that are accepted, None where it is not known, and polished."""
    writes, polishes = history.held("write"), history.held("polish")
    polished = min(1.0, polishes / writes) if writes else 1.0
    accepted = _accepted_in_bank(folder, config)
    if accepted is None and (writes < _ENOUGH or not polishes):
        return None, 1.0
    accepted = accepted or polished
    return accepted, max(polished, accepted)


def _accepted_in_bank(folder: RunFolder, config: EngineConfig) -> float | None:
    path = folder.bank / "bank.json"
    info = read_json(path) if path.is_file() else {}
    try:
        if info["generate"]["model"] != config.model:
            return None
        counts = info["counts"]
        return float(counts["accepted"] / counts["attempts"]) or None
    except (LookupError, TypeError, ArithmeticError):
        return None


def _forecast_step(
    step: str,
    calls: Sequence[float],
    requests: Sequence[ChatRequest],
    answers: Iterable[Mapping[str, Any]],
    history: History,
) -> StepForecast:
    """The calls that the journal doesn't hold, each with a prompt and an answer like these."""
    held, used = history.held(step), history.usage.get(step)
    fewest, most = (max(0, math.ceil(n) - held) for n in calls)
    per_token = history.characters_per_token.get(step, CHARACTERS_PER_TOKEN)
    if used and used.replies and used.completion_tokens:
        completion = used.completion_tokens / used.replies
    else:
        completion = fmean(len(json.dumps(one)) for one in answers) / per_token
    prompt = fmean(map(count_characters, requests)) / per_token
    return StepForecast(step, fewest, most, prompt, completion)
