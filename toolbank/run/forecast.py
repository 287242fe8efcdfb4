"""Forecast the calls of a step: what the journal already holds, and what the rest will cost."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.bank.catalogue import Catalogue
from toolbank.bank.records import Ask, Query
from toolbank.bank.twins import group_siblings
from toolbank.llm.accounts import (
    CHARACTERS_PER_TOKEN,
    cost,
    count_characters,
    describe_estimated,
    resolve_price,
)
from toolbank.llm.chat import WriteTask
from toolbank.llm.engines import ENGINES, find_engine
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.asks.write import AskStep
from toolbank.requests.judge.judge import ORDERS
from toolbank.requests.judge.judges import TEMPLATE, make_request
from toolbank.requests.verify.candidates import Candidate
from toolbank.requests.verify.grader import VerifyPrompts
from toolbank.requests.write.checks import Draft
from toolbank.requests.write.generate import (
    WriteStep,
    most_attempts,
    most_queries,
    wanted_queries,
)
from toolbank.requests.write.prompts import load_examples
from toolbank.run.folder import RunFolder
from toolbank.system.files import read_json
from toolbank.system.numbers import about, count, dollars, duration, rate, seconds, span

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import ChatRequest
    from toolbank.llm.config import EngineConfig, SearchModelConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.journal import Journal, StepUsage
    from toolbank.requests.asks import AsksConfig
    from toolbank.requests.verify import VerifyConfig
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.recipe import Recipe


# The attempts on whose prompts the length of a token is measured.
_ATTEMPTS = 20
# The 90th percentile of the standard normal distribution.
_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class History:
    """What a run folder's journal has of calls like those to come.

    `usage` are the replies of the same model and settings by step; `is_of_prompts` says that
    they answer this recipe's prompts, so that none is asked for again. `answered` is how many
    of the requests to come have a reply, where all of them were looked up. `characters_per_token`,
    by step, has those whose replies gave their tokens.
    """

    usage: Mapping[str, StepUsage] = field(default_factory=dict)
    is_of_prompts: bool = False
    answered: int | None = None
    characters_per_token: Mapping[str, float] = field(default_factory=dict)

    @property
    def latency(self) -> float | None:
        """Mean seconds of a call, by a lognormal through p50 and p90; None if not measured."""
        rows = [row for row in self.usage.values() if row.latency and row.replies]
        if not rows:
            return None
        seconds = sum(row.replies * _mean(row.latency) for row in rows)
        return seconds / sum(row.replies for row in rows)

    def held(self, step: str) -> int:
        """Replies of a step that are not asked for again."""
        if self.answered is not None:
            return self.answered
        row = self.usage.get(step)
        return row.replies if row and self.is_of_prompts else 0


def read_history(
    path: Path,
    config: EngineConfig,
    seed: int,
    requests: Sequence[ChatRequest],
    *,
    are_all: bool = False,
) -> History:
    """Read what the journal at `path` holds of this model's replies; nothing if there is none.

    `requests` are some that would be made first: where none has a reply, prompts have changed; or
    all of them.

    Raises:
        ToolbankError: the journal is damaged.
    """
    from toolbank.llm.journal import Journal

    if not path.is_file():
        return History()
    kind: EngineKind[Any] = ENGINES.find(config.engine, f"{config.section}.engine")
    with Journal(path, read_only=True) as journal:
        rows = journal.usage()
        likely = max(rows, key=lambda row: row.replies, default=None)
        # Where a kind doesn't know it, that of most replies is taken.
        identity = kind.identity(config, seed) or (likely.identity if likely else "")
        keys = (request.key(identity) for request in requests)
        known = (journal.get(key) is not None for key in keys)
        answered = sum(known) if are_all else int(any(known))
        return History(
            usage={row.step: row for row in rows if row.identity == identity},
            is_of_prompts=answered > 0,
            answered=answered if are_all else None,
            characters_per_token=_calibrate(
                journal,
                identity,
                {one.attempt for one in requests[:_ATTEMPTS]} or range(_ATTEMPTS),
            ),
        )


def _calibrate(
    journal: Journal, identity: str, attempts: Iterable[int]
) -> dict[str, float]:
    """Characters of a prompt per token of it, by step, over some attempts of the journal."""
    characters: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for attempt in attempts:
        for entry in journal.entries(attempt):
            if entry.identity == identity and entry.reply.prompt_tokens:
                texts = [message["content"] for message in entry.messages]
                characters[entry.step] += sum(map(len, texts))
                tokens[entry.step] += entry.reply.prompt_tokens
    return {step: characters[step] / tokens[step] for step in tokens}


def _mean(latency: Mapping[str, float]) -> float:
    p50, p90 = latency["p50"], latency["p90"]
    if not 0 < p50 <= p90:
        return p50
    sigma = math.log(p90 / p50) / _Z90
    return p50 * math.exp(sigma**2 / 2)


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
    withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
    step = AskStep(
        catalogue.tools,
        config,
        recipe.domain_name,
        recipe.seed,
        withheld,
        catalogue.earlier,
    )
    requests = [step.request(number) for number in range(step.total)]
    history = read_history(folder.journal, config, recipe.seed, requests, are_all=True)
    answers = [dict.fromkeys(config.keys, _TYPICAL.draft)]
    return _forecast_calls(config, step.total, requests[:_PROMPTS], answers, history)


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
    graded = {"tool": "module.function", "for": "module.function", "why": _REASON}
    answers = [{"needed": [graded] * 3, "alternatives": [graded] * 2, "aside": ""}]
    return _forecast_calls(config, queries, requests, answers, history)


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
    calls = most_pairs(recipe) * len(config.criteria) * ORDERS
    answers = [{"reason": _REASON, "winner": "A"}]
    return _forecast_calls(config, calls, requests, answers, history)


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
    return _forecast_calls(asked, calls, requests, answers, history)


def _forecast_calls(
    config: EngineConfig,
    calls: int,
    requests: Sequence[ChatRequest],
    answers: Iterable[Mapping[str, Any]],
    history: History,
) -> Forecast:
    """So many calls of a step whose attempts make one call each."""
    (name,) = config.call_steps
    step = _forecast_step(name, [calls, calls], requests, answers, history)
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
    config, domain, seed = recipe.generate, recipe.domain_name, recipe.seed
    step = WriteStep(catalogue.tools, config, domain, seed, catalogue.earlier)
    writes, polishes = [], []
    for number in step.sample(_PROMPTS):
        write = step.request(number)
        if not isinstance(write.task, WriteTask):
            break
        task = write.task
        chosen = task.tools[: (task.at_least + task.at_most) // 2]
        draft = drafts[number % len(drafts)]
        writes.append(write)
        polishes.append(step.polish(number, draft, chosen))
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


_WIDTH = 88
_INDENT = 11
# What a call of a step is, where its name does not say it.
_CALLS = {"judge": "comparison", "ask": "call", "rank": "call", "decompose": "call"}
# What many endpoints take, where `concurrency: auto` has still to find it.
_AT_ONCE = 64


def describe_forecast(forecast: Forecast, config: EngineConfig) -> Iterator[str]:
    """Labelled paragraphs; of the time only where latencies were measured."""
    held = sum(forecast.history.held(step.step) for step in forecast.steps)
    if held:
        yield from format_paragraph(
            "journal",
            f"holds {count(held, 'reply', 'replies')} already, not asked for again",
        )
    if held and not forecast.calls(most=True):
        return
    yield from format_paragraph("tokens", _tokens(forecast))
    yield from format_paragraph("cost", _cost(forecast, config))
    if forecast.history.latency:
        time = _time(forecast, config, forecast.history.latency)
        yield from format_paragraph("time", time)


def describe_step(
    title: str,
    config: EngineConfig,
    kind: EngineKind[Any],
    calls: str,
    forecast: Forecast,
    notes: Iterable[str] = (),
) -> Iterator[str]:
    """What is asked of whom, in how many calls, and their tokens, cost and time."""
    yield f"{title}, by {kind.describe(config)}"
    yield from notes
    yield from format_paragraph("calls", calls)
    yield from describe_forecast(forecast, config)


def format_share(accepted: float | None) -> str:
    """What a number of calls supposes, to stand behind it; "" where nothing is known."""
    if accepted is None:
        return ""
    return f", if {100 * accepted:.0f} % of the attempts are accepted as up to now"


def format_paragraph(label: str, text: str) -> list[str]:
    """The lines of a labelled paragraph."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tokens(forecast: Forecast) -> str:
    low, high = (forecast.tokens(most=most) for most in (False, True))
    each = "; ".join(
        f"a {_CALLS.get(step.step, step.step)} about {about(step.prompt_tokens)} in and "
        f"{about(step.completion_tokens)} out"
        for step in forecast.steps
    )
    prompts = count(forecast.prompts, "prompt")
    counted = (
        f"Counted on {prompts}, by the tokens that the journal reports{_estimated(forecast)}"
        if forecast.history.characters_per_token
        else f"Counted on {prompts} and on answers as long as the examples', at "
        f"{CHARACTERS_PER_TOKEN} characters a token; models that think first write more"
    )
    return (
        f"about {span(about(low[0]), about(high[0]))} in, "
        f"{span(about(low[1]), about(high[1]))} out: {each}. {counted}."
    )


def _estimated(forecast: Forecast) -> str:
    """How many of the journal's tokens no endpoint reported."""
    rows = forecast.history.usage.values()
    estimated = describe_estimated(sum(row.estimated for row in rows))
    return f", which are {estimated}" if estimated else ""


def _cost(forecast: Forecast, config: EngineConfig) -> str:
    price = resolve_price(config)
    if price is None and isinstance(config.price, Path):
        return f"unknown: {config.price.name} has no price of {config.model}"
    if price is None:
        return (
            f"unknown: set {config.section}.price to dollars a million tokens, such as "
            "{input: 0.15, output: 0.6}, or to a YAML file of prices by model"
        )
    low, high = (cost(price, *forecast.tokens(most=most)) for most in (False, True))
    return (
        f"about {span(dollars(low), dollars(high))}, at {rate(price.input)} a million tokens "
        f"in and {rate(price.output)} out"
    )


def _time(forecast: Forecast, config: EngineConfig, latency: float) -> str:
    at_once = _AT_ONCE if config.concurrency == "auto" else config.concurrency
    doubts = " (auto may find more or fewer)" if config.concurrency == "auto" else ""

    def wait(*, most: bool) -> str:
        calls, tokens = forecast.calls(most=most), sum(forecast.tokens(most=most))
        per_minute = (calls, config.rpm), (tokens, config.tpm)
        minutes = max((n / limit for n, limit in per_minute if limit), default=0)
        return duration(max(calls * latency / at_once, 60 * minutes))

    calls = count(at_once, "call")
    return (
        f"about {span(wait(most=False), wait(most=True))} with {calls} at once{doubts} of "
        f"{seconds(latency)} each, as in the journal"
    )


def describe_asks(
    recipe: Recipe, folder: RunFolder, catalogue: Catalogue
) -> Iterator[str]:
    """How many calls it takes, and their tokens, cost and time.

    Raises:
        InputError: the prompt can't be used.
        ToolbankError: the journal is damaged.
    """
    config = recipe.asks
    if config is None:
        return
    writer = find_engine(config)
    asked = _asked(recipe, catalogue)
    each = f"{config.per_tool} for each of {count(len(asked), 'tool')}"
    if not writer.asks_model:
        yield f"Asks: at most {each}, by {config.engine}. No model is called."
        return
    groups = group_siblings(asked)
    forecast = forecast_asks(recipe, config, catalogue, folder)
    calls = f"{forecast.calls(most=True):,}, one a tool"
    if len(groups) < len(asked):
        calls += f"; siblings on several classes share one, so that {len(groups):,} do for all"
    yield from describe_step(f"Asks: {each}", config, writer, calls, forecast)


def expect_asks(recipe: Recipe, bank: Bank, *, to_write: bool) -> Bank:
    """The bank with its asks, or where they are still `to_write`, with some of their number.

    Those of a dataset are its own.
    """
    if recipe.asks is None:
        return bank if recipe.dataset is not None else replace(bank, asks=())
    if not to_write:
        return bank
    asks = tuple(
        Ask(tool=tool.name, kind=kind, ask=f"{group[0].name} {key}")
        for group in group_siblings(_asked(recipe, Catalogue(bank.tools)))
        for tool in group
        for key, kind in recipe.asks.keys.items()
    )
    return replace(bank, asks=asks)


def _asked(recipe: Recipe, catalogue: Catalogue) -> list[Tool]:
    """All tools but those that are withheld."""
    withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
    return [tool for tool in catalogue.tools if tool.name not in withheld]
